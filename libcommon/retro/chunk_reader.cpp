#include "retro/chunk_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "base/command.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {

constexpr std::int64_t kColumns = 5;
constexpr std::int64_t kAtATime = 4096;

// The prefixes of indexed_dataset_infos.json, whose places there are the datasets' numbers.
static std::vector<std::string> prefixes_of(const RetroProject& project) {
  const std::string path = project.db() + "/indexed_dataset_infos.json";
  std::error_code none;
  if (std::filesystem::status(path, none).type() == std::filesystem::file_type::not_found)
    fail(Exit::no_input, path, ": no such file, expected a project's chunks; see build-db");
  const std::string text = read_regular_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parse_json(parser, text).get(root)) fail_json(text, path, error);
  simdjson::dom::array array;
  if (root.get(array)) fail(Exit::bad_data, path, ": expected a list of token files");
  std::vector<std::string> prefixes;
  for (const simdjson::dom::element info : array)
    prefixes.emplace_back(JsonObject(info, path).text("prefix"));
  if (prefixes.empty()) fail(Exit::bad_data, path, ": names no token files");
  return prefixes;
}

static LoadedTokenizer tokenizer_of(const RetroProject& project,
                                    const std::vector<std::string>& prefixes) {
  std::vector<std::string> paths;
  for (const std::string& prefix : prefixes) paths.push_back(project.data_prefix(prefix));
  return shared_tokenizer(paths, project.gpt_tokenizer(), "--retro-gpt-");
}

ChunkReader::ChunkReader(const RetroProject& project, const std::string& name)
    : path_(concat(project.db(), "/merged/", name, ".hdf5")),
      prefixes_(prefixes_of(project)),
      gpt_(tokenizer_of(project, prefixes_)),
      file_(path_) {
  for (const std::string& prefix : prefixes_) datasets_.emplace_back(project.data_prefix(prefix));
  size_ = file_.rows("chunks", Hdf5Type::u32, kColumns);
}

std::vector<RetroChunk> ChunkReader::read(ItemRange chunks) const {
  const auto numbers = file_.read<std::uint32_t>("chunks", chunks.begin, chunks.size());
  std::vector<RetroChunk> found;
  for (std::int64_t i = 0; i < chunks.size(); ++i) {
    const std::uint32_t* const row = &numbers[static_cast<std::size_t>(i * kColumns)];
    const RetroChunk chunk = {row[0], row[1], {row[2], row[3]}, row[4]};
    const bool known = chunk.dataset < std::ssize(datasets_);
    const std::int64_t length = known && chunk.document < datasets_[row[0]].sequences()
                                    ? datasets_[row[0]].length(row[1])
                                    : -1;
    if (chunk.tokens.begin > chunk.tokens.end || chunk.tokens.end > length)
      fail(Exit::bad_data, path_, ": chunk ", chunks.begin + i, ": tokens ", chunk.tokens.begin,
           " to ", chunk.tokens.end, " of document ", chunk.document, " of token file ",
           chunk.dataset, ", which are not there");
    found.push_back(chunk);
  }
  return found;
}

const std::string& ChunkReader::prefix(const RetroChunk& chunk) const {
  return prefixes_[static_cast<std::size_t>(chunk.dataset)];
}

std::string ChunkReader::text(const RetroChunk& chunk) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(chunk.tokens.size()));
  datasets_[static_cast<std::size_t>(chunk.dataset)].read(chunk.document, chunk.tokens.begin,
                                                          std::span(tokens));
  return gpt_.tokenizer->decode_text(tokens);
}

void ChunkReader::tokens(const RetroChunk& chunk, std::span<std::int32_t> padded) const {
  if (chunk.tokens.size() > std::ssize(padded))
    fail(Exit::bad_data, path_, ": a chunk of ", chunk.tokens.size(), " tokens, expected at most ",
         padded.size());
  const auto count = static_cast<std::size_t>(chunk.tokens.size());
  datasets_[static_cast<std::size_t>(chunk.dataset)].read(chunk.document, chunk.tokens.begin,
                                                          padded.first(count));
  std::ranges::fill(padded.subspan(count), gpt_.tokenizer->eod());
}

void ShowChunksOptions::add_to(CommandLine& cl) {
  cl.section("Chunks");
  cl.option("--retro-project-dir", &project, "DIR", "the project's folder");
  cl.required("--retro-project-dir");
  cl.option("--db", &name, "NAME", "which chunks: those of training, of validation, or an index's",
            one_of({"train", "valid", "sampled"}));
  cl.option("--head", &head, "N", "the first N alone", at_least(0));
}

void show_chunks(const ShowChunksOptions& options, const RunContext& context, std::ostream& out) {
  const ChunkReader chunks(RetroProject(options.project), options.name);
  const std::int64_t end = std::min(options.head.value_or(chunks.size()), chunks.size());
  for (std::int64_t begin = 0; begin < end; begin += kAtATime) {
    const auto some = chunks.read({begin, std::min(begin + kAtATime, end)});
    for (std::size_t i = 0; i < some.size(); ++i) {
      JsonWriter json;
      json.begin_object()
          .member("chunk", begin + static_cast<std::int64_t>(i))
          .member("prefix", chunks.prefix(some[i]))
          .member("document", some[i].document)
          .member("begin", some[i].tokens.begin)
          .member("end", some[i].tokens.end)
          .member("bert_length", some[i].bert_length)
          .member("text", chunks.text(some[i]))
          .end_object();
      out << json.text() << '\n';
    }
    context.checkpoint();
  }
}

}  // namespace mt
