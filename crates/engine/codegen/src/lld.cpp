// The door to lld's ELF linker: one call, the linked bytes in memory, messages into a buffer.
//
// lld writes its output through llvm::FileOutputBuffer::create. The definition here takes the place of LLVM's for lld
// (both are linked statically), so that the output never touches a file system: a jailed compiler has none.

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileOutputBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

LLD_HAS_DRIVER(elf)

namespace {

// What the link on this thread has written.
thread_local std::vector<uint8_t> linked;

class MemoryOutput : public llvm::FileOutputBuffer {
public:
  explicit MemoryOutput(llvm::StringRef path, size_t size) : FileOutputBuffer(path), bytes(size) {}
  uint8_t *getBufferStart() const override { return const_cast<uint8_t *>(bytes.data()); }
  uint8_t *getBufferEnd() const override { return getBufferStart() + bytes.size(); }
  size_t getBufferSize() const override { return bytes.size(); }
  llvm::Error commit() override {
    linked = std::move(bytes);
    return llvm::Error::success();
  }

private:
  std::vector<uint8_t> bytes;
};

} // namespace

llvm::Expected<std::unique_ptr<llvm::FileOutputBuffer>>
llvm::FileOutputBuffer::create(StringRef path, size_t size, unsigned) {
  return std::make_unique<MemoryOutput>(path, size);
}

// Links with the arguments of ld.lld. Returns whether it went well; then `*library` and `*library_size` are the
// bytes, valid until the next call on this thread. Messages are cut to `capacity` bytes and end with a zero byte.
extern "C" bool antares_lld_link(const char *const *arguments, size_t count, const uint8_t **library,
                                 size_t *library_size, char *messages, size_t capacity) {
  linked.clear();
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
  *library = linked.data();
  *library_size = linked.size();
  return ok;
}
