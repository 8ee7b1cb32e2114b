// encode_lines VOCAB MERGES: encodes strings for scripts/compare-tokenizer.py.  stdin: for each
// string its length in bytes (u32) and the bytes; stdout: for each the number of ids (u32) and the
// ids (i32).
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/gpt2_bpe.h"

static void run(const mt::Gpt2Bpe& tokenizer) {
  std::string text;
  std::vector<std::int32_t> ids;
  for (std::uint32_t size; std::fread(&size, sizeof size, 1, stdin) == 1;) {
    text.resize(size);
    if (std::fread(text.data(), 1, size, stdin) != size)
      mt::fail(mt::Exit::bad_data, "stdin: ends inside a string");
    ids.clear();
    tokenizer.encode(text, ids);
    const auto count = static_cast<std::uint32_t>(ids.size());
    std::fwrite(&count, sizeof count, 1, stdout);
    std::fwrite(ids.data(), sizeof ids[0], ids.size(), stdout);
  }
}

int main(int argc, char** argv) {
  try {
    if (argc != 3) mt::fail(mt::Exit::usage, "usage: encode_lines VOCAB MERGES");
    run(mt::Gpt2Bpe(argv[1], argv[2]));
    return 0;
  } catch (const mt::Error& error) {
    std::fprintf(stderr, "encode_lines: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
