// Any bytes as a GGUF file, or, behind an S, as two, of which the first is as long as the next two
// bytes say: refused with mt::Error, or its tensors can be read, and what the writer makes of them
// is read again, the same.
//
// Parser: libcommon/ckpt/gguf_reader.cpp
// Parser: libcommon/ckpt/gguf_blocks.cpp
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "ckpt/gguf.h"
#include "tensor/buffer.h"
#include "tests/base/scratch.h"
#include "tests/fuzz/file_of.h"

namespace {

mt::GgufType type_of(const mt::DistTensor& tensor) {
  if (tensor.dtype_name == "q8_0") return mt::GgufType::q8_0;  // other blocks are only read
  return *tensor.dtype == mt::DType::f32   ? mt::GgufType::f32
         : *tensor.dtype == mt::DType::f16 ? mt::GgufType::f16
                                           : mt::GgufType::bf16;
}

mt::Buffer read(const mt::GgufReader& reader, const mt::DistTensor& tensor) {
  mt::Buffer buffer(mt::Device::cpu,
                    static_cast<std::size_t>(tensor.shape.numel()) * size_of(*tensor.dtype));
  const mt::Tensor whole = buffer.tensor(*tensor.dtype, tensor.shape);
  reader.read_original(tensor.key, mt::origin_of(tensor.shape.rank()), whole);
  if (tensor.shape.rank() == 0 || tensor.shape[0] < 2) return buffer;
  const mt::Tensor rest = whole.rows(1, tensor.shape[0]);
  const mt::Buffer again(mt::Device::cpu, rest.bytes());
  std::vector<std::int64_t> second(static_cast<std::size_t>(tensor.shape.rank()), 0);
  second[0] = 1;
  reader.read_original(tensor.key, mt::Shape(std::span<const std::int64_t>(second)),
                       again.tensor(*tensor.dtype, rest.shape()));
  if (rest.bytes() > 0 && std::memcmp(again.data(), rest.data(), rest.bytes()) != 0) std::abort();
  return buffer;
}

// What the reader asks for, which is no text.
bool is_read(std::string_view key) {
  return key == "general.alignment" || key.starts_with("split.");
}

void write_again(const mt::GgufReader& reader) {
  std::vector<mt::GgufWriter::Entry> entries;
  for (const auto& [key, tensor] : reader.tensors())
    entries.push_back({key, type_of(tensor), tensor.shape});
  mt::GgufKeyValues texts;
  for (const auto& [key, value] : reader.values())
    if (!is_read(key)) texts.text(key, value.json());
  const mt::FileOf copy({});
  mt::GgufWriter writer(copy.path(), texts, entries);
  for (const auto& [key, tensor] : reader.tensors())
    writer.write(key, read(reader, tensor).tensor(*tensor.dtype, tensor.shape));
  writer.close();
  const mt::GgufReader again(copy.path());
  for (const auto& [key, tensor] : reader.tensors()) {
    const mt::DistTensor& other = again.at(key);
    if (type_of(other) != type_of(tensor) || !(other.shape == tensor.shape)) std::abort();
    const mt::Buffer a = read(reader, tensor), b = read(again, other);
    if (tensor.dtype_name != "q8_0" && a.bytes() > 0 &&
        std::memcmp(a.data(), b.data(), a.bytes()) != 0)
      std::abort();
  }
  for (const auto& [key, value] : reader.values())
    if (!is_read(key) && again.values().at(key).as_text("") != value.json()) std::abort();
}

void check(const std::string& path) {
  try {
    const mt::GgufReader reader(path);
    for (const auto& [key, value] : reader.values()) {
      if (&reader.value(key) != &value) std::abort();
      for (const auto& as : {+[](const mt::GgufValue& v) { v.as_integer(""); },
                             +[](const mt::GgufValue& v) { v.as_real(""); },
                             +[](const mt::GgufValue& v) { v.as_flag(""); },
                             +[](const mt::GgufValue& v) { v.as_text(""); },
                             +[](const mt::GgufValue& v) { v.as_texts(""); },
                             +[](const mt::GgufValue& v) { v.as_integers(""); },
                             +[](const mt::GgufValue& v) { v.as_reals(""); }})
        try {
          as(value);
        } catch (const mt::Error& error) {
          if (error.code() != mt::Exit::bad_data) throw;
        }
      value.json();
    }
    write_again(reader);
    reader.value("a key that is not there");
    std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  std::span bytes(input, size);
  constexpr std::size_t kHead = 3;
  if (size < kHead || input[0] != 'S') {
    check(mt::FileOf(std::as_bytes(bytes)).path());
    return 0;
  }
  bytes = bytes.subspan(kHead);
  const std::size_t first = std::min<std::size_t>(input[1] + 256u * input[2], bytes.size());
  const mt::Scratch folder;
  const std::string path = folder.path("a-00001-of-00002.gguf");
  mt::File::create(path).write(std::as_bytes(bytes.first(first)));
  mt::File::create(folder.path("a-00002-of-00002.gguf")).write(std::as_bytes(bytes.subspan(first)));
  check(path);
  return 0;
}
