#include "formats/chat_files.h"

#include <filesystem>

#include "base/file.h"

namespace mt {

std::vector<ChatFile> chat_files_of(const std::vector<Companion>& companions) {
  std::vector<ChatFile> files;
  for (const Companion& file : companions)
    files.push_back({file.name, [file] { return file.read(); }});
  return files;
}

std::string tokenizer_folder(const TokenizerOptions& tokenizer) {
  const std::string& file = tokenizer.model.empty() ? tokenizer.vocab_file : tokenizer.model;
  if (file.empty()) return {};
  std::error_code none;
  return std::filesystem::is_directory(file, none) ? file : parent_directory(file);
}

std::vector<ChatFile> chat_files_of(const std::vector<Companion>& companions,
                                    const TokenizerOptions& tokenizer) {
  if (tokenizer.type.empty()) return chat_files_of(companions);
  const std::string folder = tokenizer_folder(tokenizer);
  return folder.empty() ? std::vector<ChatFile>() : chat_files_in(folder);
}

}  // namespace mt
