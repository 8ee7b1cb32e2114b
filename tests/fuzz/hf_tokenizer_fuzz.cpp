// Any bytes as a tokenizer.json, and what follows NULs as the files beside it, in the order of
// kBeside, where an empty one is absent: refused with one line, or a tokenizer whose ids are its
// own and whose text comes out alike in parts and at once.  Read as transformers 5 does where the
// tokenizer.json begins with a blank.
//
// Seeds: testdata/huggingface
// Parser: libcommon/base/json_object.cpp
// Parser: libcommon/base/json_parse.cpp
// Parser: libcommon/text/hf/hf_tokenizer.cpp
// Parser: libcommon/text/hf/hf_model.cpp
// Parser: libcommon/text/hf/hf_bpe.cpp
// Parser: libcommon/text/hf/hf_unigram.cpp
// Parser: libcommon/text/hf/hf_whole_words.cpp
// Parser: libcommon/text/hf/hf_normalizer.cpp
// Parser: libcommon/text/hf/hf_pre_tokenizer.cpp
// Parser: libcommon/text/hf/hf_regex_class.cpp
// Parser: libcommon/text/hf/hf_regex_syntax.cpp
// Parser: libcommon/text/hf/hf_decoder.cpp
// Parser: libcommon/text/hf/hf_config.cpp
// Parser: libcommon/text/hf/hf_adapt.cpp
// Parser: libcommon/text/hf/hf_added_tokens.cpp
// Parser: libcommon/text/hf/hf_template.cpp
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static constexpr const char* kBeside[] = {"tokenizer_config.json", "tokenizer_class.json",
                                            "special_tokens_map.json", "added_tokens.json",
                                            "config.json"};
  std::string_view rest(reinterpret_cast<const char*>(input), size);
  const auto next = [&rest] {
    const std::string_view part = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const std::string_view content = next();
  const int version = content.starts_with(' ') ? 5 : 4;
  std::vector<mt::HfConfigFile> config_files;
  for (const char* name : kBeside)
    if (const std::string_view part = next(); !part.empty())
      config_files.push_back({name, std::string(part)});
  try {
    const mt::HfTokenizer tokenizer(content, "fuzz", config_files, version);
    std::vector<std::int32_t> ids;
    for (const std::string_view text :
         {"", "aaaaaaaa",
          " Tom's  12 cats,\tof\r\n-\xC3\xA9 e\xCC\x81\xFF <s></s>[INST]\xE2\x96\x81"})
      tokenizer.encode(text, ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
    std::string streamed;
    const auto decoder = tokenizer.stream_decoder();
    for (const std::int32_t id : ids) decoder->push(id, streamed);
    decoder->finish(streamed);
    if (streamed != tokenizer.decode_text(ids)) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
