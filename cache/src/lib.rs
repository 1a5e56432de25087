//! The content-addressed artifact store on sled: verified on read, size accounted, safe to throw away.
