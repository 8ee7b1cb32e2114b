// time_encode --tokenizer-type TYPE ... [--output IDS] TEXTS: how long a tokenizer takes for texts,
// for scripts/bench-preprocess.  TEXTS is a file of strings, each its length in bytes (u32) and the
// bytes.  stdout: one line of JSON; IDS: the ids of all strings (i32), one after another.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "text/tokenizer.h"

namespace {

std::vector<std::string_view> strings_in(std::string_view content, const std::string& path) {
  std::vector<std::string_view> strings;
  while (!content.empty()) {
    std::uint32_t size = 0;
    if (content.size() >= sizeof size) std::memcpy(&size, content.data(), sizeof size);
    if (content.size() < sizeof size + size)
      mt::fail(mt::Exit::bad_data, path, ": ends inside a string");
    strings.push_back(content.substr(sizeof size, size));
    content.remove_prefix(sizeof size + size);
  }
  return strings;
}

void run(mt::CommandLine& cl) {
  mt::TokenizerOptions options;
  std::string path, output;
  cl.describe("how long a tokenizer takes for texts");
  cl.positional("TEXTS", &path);
  cl.option("--output", &output, "IDS", "file for the ids");
  options.add_to(cl);
  cl.option("--vocab-size", &options.vocab_size, "N", "of types that need to be told");
  cl.parse();
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto loading = Clock::now();
  const auto tokenizer = mt::make_tokenizer(options);
  const double load = seconds_since(loading);
  const std::string content = mt::read_file(path);
  std::size_t bytes = 0, count = 0;
  double encoding = 0;
  std::vector<std::int32_t> ids;
  std::string all;
  for (const std::string_view text : strings_in(content, path)) {
    ids.clear();
    const auto start = Clock::now();
    tokenizer->encode(text, ids);
    encoding += seconds_since(start);
    bytes += text.size();
    count += ids.size();
    if (!output.empty())
      all.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
  }
  if (!output.empty()) mt::write_file_atomically(output, all, true);
  std::cout << "{\"bytes\":" << bytes << ",\"ids\":" << count << ",\"load_seconds\":" << load
            << ",\"seconds\":" << encoding << "}\n";
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("time_encode", argc, argv, run); }
