// Any bytes as a torch.save archive: refused with mt::Error, or its records and tensors are read.
//
// Parser: libcommon/ckpt/zip_reader.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "ckpt/torch_file.h"

static void read_tensor(const mt::TorchReader& file, const mt::PyValue& value) {
  try {
    const mt::StoredTensor tensor = file.tensor(value);
    if (tensor.shape.numel() > 1 << 16) return;  // a stride of 0 makes many of one
    std::vector<std::byte> copy(static_cast<std::size_t>(tensor.shape.numel()) *
                                mt::size_of(tensor.dtype));
    tensor.copy_to({copy.data(), tensor.dtype, tensor.shape});
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
}

static void read_tensors(const mt::TorchReader& file, const mt::PyValue& value) {
  using Kind = mt::PyValue::Kind;
  if (mt::TorchReader::is_tensor(value)) {
    read_tensor(file, value);
  } else if (value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::set)) {
    for (const mt::PyValue& item : value.as_items("")) read_tensors(file, item);
  } else if (value.is(Kind::dict)) {
    for (const mt::PyValue& item : value.entries("")) read_tensors(file, item);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const mt::Bytes archive = std::as_bytes(std::span(input, size));
  try {
    const mt::ZipReader zip(archive, "fuzz");
    for (const std::string& record : zip.records()) mt::hash_hex(zip.at(record));
    const mt::TorchReader file(archive, "fuzz");
    read_tensors(file, file.value());
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
