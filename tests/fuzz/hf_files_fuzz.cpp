// Any bytes as the files of a tokenizer folder without a tokenizer.json: the first byte says which,
// and the version of transformers, the next two how long the tokenizer_config.json in front of them
// is; merges.txt follows vocab.json behind a NUL.  Refused with one line, or a tokenizer whose ids
// are its own.
//
// Parser: libcommon/text/bpe/tekken.cpp
// Parser: libcommon/text/hf/hf_from_files.cpp
// Parser: libcommon/text/hf/hf_from_ranks.cpp
// Parser: libcommon/text/hf/hf_from_sentencepiece.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/hf/hf_from_files.h"
#include "text/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  constexpr std::size_t kHead = 3;
  if (size < kHead) return 0;
  static constexpr const char* kNames[] = {"vocab.json", "vocab.txt", "tokenizer.model",
                                           "tekken.json"};
  const std::string name = kNames[input[0] % std::size(kNames)];
  const int version = (input[0] & 4) != 0 ? 5 : 4;
  std::string_view content(reinterpret_cast<const char*>(input) + kHead, size - kHead);
  const std::string_view said = content.substr(0, input[1] + 256u * input[2]);
  content.remove_prefix(said.size());
  std::vector<mt::HfConfigFile> files, config_files;
  if (!said.empty()) config_files.push_back({"tokenizer_config.json", std::string(said)});
  const std::size_t end = name == "vocab.json" ? content.find('\0') : content.npos;
  files.push_back({name, std::string(content.substr(0, end))});
  if (name == "vocab.json")
    files.push_back(
        {"merges.txt", std::string(end == content.npos ? "" : content.substr(end + 1))});
  try {
    mt::HfConfig config = mt::read_hf_config(config_files, version);
    if (!config.has_class) config.tokenizer_class = &mt::hf_class(mt::hf_class_of_files(files));
    mt::fill_hf_roles(config, version);
    const std::string json = mt::hf_json_from(files, config, version);
    const mt::HfTokenizer tokenizer(json, "fuzz", config_files, version);
    std::vector<std::int32_t> ids;
    tokenizer.encode(" Tom's  12 cats,\tof\r\n-\xC3\xA9 e\xCC\x81\xFF <s></s>", ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
