// The door to lld's ELF linker: one call, messages into a buffer.

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstring>
#include <string>

LLD_HAS_DRIVER(elf)

// Links with the arguments of ld.lld. Returns whether it went well; messages are cut to `capacity` bytes and end with
// a zero byte.
extern "C" bool antares_lld_link(const char *const *arguments, size_t count, char *messages, size_t capacity) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool ok = lld::elf::link(llvm::ArrayRef<const char *>(arguments, count), stream, stream, false, false);
  lld::CommonLinkerContext::destroy();
  stream.flush();
  if (capacity > 0) {
    size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(messages, text.data(), length);
    messages[length] = 0;
  }
  return ok;
}
