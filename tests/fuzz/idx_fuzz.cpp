// Any bytes as an .idx over a small .bin: refused with mt::Error, or every sequence can be read.
// Parser: libcommon/data/files/indexed_dataset.cpp
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "data/files/indexed_dataset.h"
#include "data/samples/gpt_dataset.h"

using mt::Bytes;

static void read_all(const mt::IndexedDataset& data) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    tokens.resize(static_cast<std::size_t>(data.length(i)));
    data.read(i, 0, std::span(tokens));
    data.mode(i);
  }
  for (std::int64_t d = 0; d < data.documents(); ++d)
    for (std::int64_t i = data.document_begin(d); i < data.document_begin(d + 1); ++i)
      data.sequence(i);
}

static void draw_samples(const mt::IndexedDataset& data, std::size_t choice) {
  mt::GptDatasetOptions options;
  options.index.sequences = {0, data.sequences()};
  options.index.seq_length = 1 + static_cast<std::int64_t>(choice % 5);
  options.index.drop_last_partial = choice % 2 == 0;
  if (choice % 3 != 0) options.index.num_samples = static_cast<std::int64_t>(choice % 50);
  const mt::GptDataset dataset(data, options);
  const auto S = static_cast<std::size_t>(dataset.seq_length());
  std::vector<std::int32_t> inputs(S), labels(S), positions(S);
  std::vector<float> mask(S);
  for (std::int64_t k = 0; k < dataset.size(); ++k)
    dataset.get(k, {inputs, labels, positions, {}, mask});
}

// The first byte is the size of .bin, whose bytes count 0, 1, 2, ...
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> bin(input[0]);
  for (std::size_t i = 0; i < bin.size(); ++i) bin[i] = static_cast<std::byte>(i % 128);
  const Bytes idx = std::as_bytes(std::span(input + 1, size - 1));
  try {
    const mt::IndexedDataset data = mt::IndexedDataset::from_bytes(idx, bin, "fuzz");
    read_all(data);
    draw_samples(data, size + input[0]);
  } catch (const mt::Error&) {
  }
  return 0;
}
