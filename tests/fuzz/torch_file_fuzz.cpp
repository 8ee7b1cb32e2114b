// Any bytes as a file of torch.save, an archive or the pickles of older releases: refused with
// mt::Error, or its tensors can be read, whole and from the second row on, of memory and of a file.
//
// Parser: libcommon/ckpt/torch_pickles.cpp
// Parser: libcommon/ckpt/torch_reader.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "ckpt/tensor_source.h"
#include "ckpt/torch_file.h"
#include "tests/fuzz/file_of.h"

namespace {

void read(const mt::MappedFile& file, const mt::StoredTensor& tensor) {
  constexpr std::int64_t kMost = 1 << 16;  // a stride of 0 makes many of one
  if (tensor.shape.numel() > kMost) return;
  const auto bytes = static_cast<std::size_t>(tensor.shape.numel()) * size_of(tensor.dtype);
  std::vector<std::byte> copy(bytes), again(bytes);
  const mt::Tensor whole{copy.data(), tensor.dtype, tensor.shape};
  tensor.copy_to(whole);
  const mt::Shape origin = mt::origin_of(tensor.shape.rank());
  tensor.copy_once(file, origin, {again.data(), tensor.dtype, tensor.shape});
  if (copy != again) std::abort();
  if (tensor.shape.rank() == 0 || tensor.shape[0] < 2) return;
  const mt::Tensor expected = whole.rows(1, tensor.shape[0]);
  std::vector<std::int64_t> second(static_cast<std::size_t>(tensor.shape.rank()), 0);
  second[0] = 1;
  tensor.copy_to(mt::Shape(std::span<const std::int64_t>(second)),
                 {again.data(), tensor.dtype, expected.shape()});
  if (expected.bytes() > 0 && std::memcmp(again.data(), expected.data(), expected.bytes()) != 0)
    std::abort();
}

void read_tensors(const mt::MappedFile& mapped, const mt::TorchReader& file,
                  const mt::PyValue& value) {
  using Kind = mt::PyValue::Kind;
  const auto read_all = [&](const std::vector<mt::PyValue>& items) {
    for (const mt::PyValue& item : items) read_tensors(mapped, file, item);
  };
  if (mt::TorchReader::is_tensor(value)) {
    try {
      read(mapped, file.tensor(value));
    } catch (const mt::Error& error) {
      if (error.code() != mt::Exit::bad_data) std::abort();
    }
  } else if (value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::set)) {
    read_all(value.as_items(""));
  } else if (value.is(Kind::dict)) {
    read_all(value.entries(""));
  } else if (value.is(Kind::object)) {
    read_all(value.set_items());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    const mt::FileOf on_disk(std::as_bytes(std::span(input, size)));
    const mt::MappedFile mapped(on_disk.path());
    const mt::TorchReader file(mapped.bytes(), "fuzz");
    read_tensors(mapped, file, file.value());
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
