// Any bytes as a pickle: refused with mt::Error, or a value that comes back when it is written.
// What a stream has once and repeats is written again and again, and takes memory and time each
// time it is read: what is far longer than the stream is not.
//
// Parser: libcommon/ckpt/pickle_reader.cpp
// Parser: libcommon/ckpt/pickle_text.cpp
// Parser: libcommon/ckpt/pickle_nodes.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "ckpt/pickle.h"

// Keyword arguments and ints of more than 255 bytes have no form in protocol 2.
static bool written(const mt::PyValue& value, std::string& stream) {
  try {
    stream = mt::write_pickle(value);
    return true;
  } catch (const mt::Error&) {
    return false;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  mt::PyValue value;
  try {
    value = mt::read_pickle(std::as_bytes(std::span(input, size)), "fuzz");
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
    return 0;
  }
  std::string stream;
  if (!written(value, stream) || stream.size() > 16 * size + (1 << 16)) return 0;
  mt::Allowance any(std::uint64_t{1} << 40);
  if (!(mt::read_pickle(mt::as_bytes(stream), "again", any) == value)) std::abort();
  return 0;
}
