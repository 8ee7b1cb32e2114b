// encode_lines [--decode] --tokenizer-type TYPE ...: encodes strings, or decodes ids, for the
// scripts/compare-*.py.  A string is its length in bytes (u32) and the bytes; ids are their number
// (u32) and the ids (i32).  stdin has the one for as many as there are, stdout the other for each.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/command.h"
#include "base/error.h"
#include "text/tokenizer.h"

namespace {

// The next string or ids; false at the end of stdin.
template <class List>
bool read(List& list) {
  std::uint32_t size = 0;
  if (std::fread(&size, sizeof size, 1, stdin) != 1) return false;
  list.resize(size);
  if (std::fread(list.data(), sizeof list[0], size, stdin) != size)
    mt::fail(mt::Exit::bad_data, "stdin: ends inside an item");
  return true;
}

template <class List>
void write(const List& list) {
  const auto size = static_cast<std::uint32_t>(list.size());
  std::fwrite(&size, sizeof size, 1, stdout);
  std::fwrite(list.data(), sizeof list[0], size, stdout);
}

void run(mt::CommandLine& cl) {
  mt::TokenizerOptions options;
  bool decode = false;
  cl.describe("encode strings, or decode ids");
  cl.flag("--decode", &decode, "ids to text");
  options.add_to(cl);
  options.add_extra_ids_to(cl);
  cl.option("--vocab-size", &options.vocab_size, "N", "of types that need to be told");
  cl.parse();
  const auto tokenizer = mt::make_tokenizer(options);
  std::vector<std::int32_t> ids;
  if (decode) {
    while (read(ids)) write(tokenizer->decode_text(ids));
  } else {
    for (std::string text; read(text); ids.clear()) {
      tokenizer->encode(text, ids);
      write(ids);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("encode_lines", argc, argv, run); }
