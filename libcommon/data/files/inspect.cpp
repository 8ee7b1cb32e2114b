#include "data/files/inspect.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/files/manifest.h"
#include "data/samples/numpy_random.h"

namespace mt {
namespace {

constexpr std::int64_t kTileTokens = 1 << 22;

void write_ids(JsonWriter& json, const std::vector<std::int64_t>& ids) {
  json.begin_array();
  for (const std::int64_t id : ids) json.value(id);
  json.end_array();
}

// `where` stands before errors; `ends`: how many tokens that end a document may end it.
void write_text(JsonWriter& json, const std::vector<std::int64_t>& ids, std::size_t ends,
                const Tokenizer& tokenizer, const std::string& where) {
  std::vector<std::int32_t> narrow;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= tokenizer.vocab_size())
      fail(Exit::bad_data, where, ": token ", narrow.size(), " is ", id, ", expected 0 to ",
           tokenizer.vocab_size() - 1);
    narrow.push_back(static_cast<std::int32_t>(id));
  }
  for (; ends > 0 && !narrow.empty() && narrow.back() == tokenizer.eod(); --ends) narrow.pop_back();
  json.value(tokenizer.decode_text(narrow));
}

// "token 7 is 700" for the first token of a .bin that is not in [0, limit); empty if there is none.
template <class T>
std::string first_outside(Bytes bin, std::int64_t limit) {
  const auto count = static_cast<std::int64_t>(bin.size() / sizeof(T));
  const auto token = [&](std::int64_t i) {
    T value;
    std::memcpy(&value, bin.data() + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return value;
  };
  const std::int64_t tiles = (count + kTileTokens - 1) / kTileTokens;
  std::vector<std::int64_t> found(static_cast<std::size_t>(tiles), count);
  parallel_for(tiles, [&](std::int64_t tile) {
    const std::int64_t end = std::min(count, (tile + 1) * kTileTokens);
    std::int64_t i = tile * kTileTokens;
    while (i < end && token(i) >= T(0) && token(i) < static_cast<std::int64_t>(limit)) ++i;
    if (i < end) found[static_cast<std::size_t>(tile)] = i;
  });
  const auto least = std::min_element(found.begin(), found.end());
  if (least == found.end() || *least == count) return "";
  return concat("token ", *least, " is ", +token(*least));
}

}  // namespace

static std::vector<std::int64_t> ids_of(const IndexedDataset& data, std::int64_t sequence) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(data.length(sequence)));
  data.read(sequence, 0, std::span(ids));
  return ids;
}

// A line for a document of texts and images, whose texts are filled up with tokens that end one.
static std::string text_and_images_line(const IndexedDataset& data, ItemRange sequences,
                                        const Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object();
  for (const char* const what : {"text", "image_bytes"}) {
    const bool images = *what == 'i';
    std::vector<std::int64_t> some;
    for (std::int64_t i = sequences.begin; i < sequences.end; ++i)
      if ((data.mode(i) != 0) == images) some.push_back(i);
    json.key(what);
    if (some.size() != 1) json.begin_array();
    for (const std::int64_t i : some) {
      const std::vector<std::int64_t> ids = ids_of(data, i);
      if (images)
        json.value(ids.empty() ? 0 : 4 * (std::ssize(ids) - 1) - ids.front());
      else
        write_text(json, ids, ids.size(), tokenizer,
                   concat(bin_path(data.prefix()), ": sequence ", i));
    }
    if (some.size() != 1) json.end_array();
  }
  return json.end_object().text();
}

std::string document_line(const IndexedDataset& data, std::int64_t document,
                          const Tokenizer* tokenizer) {
  const std::int64_t begin = data.document_begin(document), end = data.document_begin(document + 1);
  if (tokenizer != nullptr && data.multimodal())
    return text_and_images_line(data, {begin, end}, *tokenizer);
  JsonWriter json;
  if (tokenizer != nullptr) json.begin_object().key("text");
  if (end - begin > 1) json.begin_array();
  if (end == begin && tokenizer != nullptr) json.value("");
  if (end == begin && tokenizer == nullptr) json.begin_array().end_array();
  for (std::int64_t i = begin; i < end; ++i) {
    const std::vector<std::int64_t> ids = ids_of(data, i);
    if (tokenizer != nullptr)
      write_text(json, ids, i + 1 == end ? 1 : 0, *tokenizer,
                 concat(bin_path(data.prefix()), ": sequence ", i));
    else
      write_ids(json, ids);
  }
  if (end - begin > 1) json.end_array();
  if (tokenizer != nullptr) json.end_object();
  return json.text();
}

void for_each_document(std::int64_t documents, const DocumentChoice& choice,
                       const std::function<void(std::int64_t)>& body) {
  const std::int64_t count = std::min(documents, choice.head.value_or(documents));
  std::int64_t wanted = std::min(count, choice.sample.value_or(count));
  RandomState random(choice.seed);
  // Each of the remaining documents is taken with the chance that it is among the remaining wanted
  // ones (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S).
  for (std::int64_t d = 0; d < count && wanted > 0; ++d) {
    if (choice.sample && random.randint(0, count - d) >= wanted) continue;
    body(d);
    --wanted;
  }
}

std::string summary_text(const IndexedDataset& data) {
  return concat(data.prefix(), ": ", data.documents(), " documents, ", data.sequences(),
                " sequences, ", data.tokens(), " tokens, ", name_of(data.type()));
}

std::string summary_json(const IndexedDataset& data) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-check/1").member("prefix", data.prefix());
  json.member("documents", data.documents()).member("sequences", data.sequences());
  json.member("tokens", data.tokens()).member("dtype", name_of(data.type())).end_object();
  return json.text();
}

// What of a token file is outside of [0, limit), but for images.
static std::string outside_of(const IndexedDataset& data, std::int64_t limit) {
  return with_token_type(data.type(), [&]<class T>() -> std::string {
    if (!data.multimodal()) return first_outside<T>(data.bin_bytes(), limit);
    for (std::int64_t i = 0; i < data.sequences(); ++i) {
      if (data.mode(i) != 0) continue;
      const std::string outside = first_outside<T>(data.sequence(i), limit);
      if (!outside.empty()) return concat("sequence ", i, ": ", outside);
    }
    return "";
  });
}

static std::string hash_of(Bytes bytes, Progress& progress) {
  constexpr std::size_t kBlock = 16 << 20;
  Hasher hasher;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(kBlock, bytes.size()))) {
    const Bytes block = bytes.first(std::min(kBlock, bytes.size()));
    hasher.update(block);
    progress.add(block.size());
  }
  return hasher.hex();
}

std::vector<std::string> differences_from_manifest(const std::string& prefix, const Log& log) {
  const IndexedDataset data(prefix);
  const Manifest manifest = read_manifest(prefix);
  std::vector<std::string> differences;
  Progress progress(log, "verifying", "bytes", data.idx_bytes().size() + data.bin_bytes().size());
  const auto compare = [&](const std::string& file, const char* what, const auto& is,
                           const auto& expected) {
    if (is != expected)
      differences.push_back(concat(file, ": ", what, " ", is, ", the manifest says ", expected));
  };
  compare(idx_path(prefix), "type", std::string(name_of(data.type())), manifest.dtype);
  compare(idx_path(prefix), "sequences", data.sequences(), manifest.sequences);
  compare(idx_path(prefix), "documents", data.documents(), manifest.documents);
  compare(bin_path(prefix), "tokens", data.tokens(), manifest.tokens);
  compare(idx_path(prefix), "hash", hash_of(data.idx_bytes(), progress), manifest.idx_hash);
  compare(bin_path(prefix), "hash", hash_of(data.bin_bytes(), progress), manifest.bin_hash);
  if (!manifest.tokenizer) return differences;
  const std::int64_t limit = manifest.tokenizer->vocab_size;
  const std::string outside = outside_of(data, limit);
  if (!outside.empty())
    differences.push_back(
        concat(bin_path(prefix), ": ", outside, ", the tokenizer has 0 to ", limit - 1));
  return differences;
}

std::string verdict_text(const std::string& prefix, const std::vector<std::string>& differences) {
  if (differences.empty()) return prefix + ": as its manifest says";
  std::string lines = differences.front();
  for (std::size_t i = 1; i < differences.size(); ++i) lines += "\n" + differences[i];
  return lines;
}

std::string verdict_json(const std::string& prefix, const std::vector<std::string>& differences) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-verify/1").member("prefix", prefix);
  json.key("differences").begin_array();
  for (const std::string& difference : differences) json.value(difference);
  json.end_array().end_object();
  return json.text();
}

}  // namespace mt
