// Stands in for a library of Windows that Rust's standard library asks for random bytes, and that wine has from
// version 9 on. It is for comparing outputs under wine, and for nothing else.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG length); // RtlGenRandom

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    return SystemFunction036(bytes, (ULONG)length);
}
