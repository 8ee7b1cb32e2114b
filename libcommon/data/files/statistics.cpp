#include "data/files/statistics.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/threads.h"

namespace mt {
namespace {

constexpr std::int64_t kTileDocuments = 4096;
constexpr int kBarWidth = 50;

// The first and the last bucket with something in it; an empty range where there is none.
ItemRange filled(const LengthStatistics& lengths) {
  const auto some = [](std::int64_t count) { return count > 0; };
  const auto first = std::find_if(lengths.buckets.begin(), lengths.buckets.end(), some);
  const auto last = std::find_if(lengths.buckets.rbegin(), lengths.buckets.rend(), some);
  if (first == lengths.buckets.end()) return {};
  return {first - lengths.buckets.begin(), lengths.buckets.rend() - last};
}

std::int64_t lowest_of(std::int64_t bucket) {
  return bucket == 0 ? 0 : std::int64_t{1} << (bucket - 1);
}
std::int64_t highest_of(std::int64_t bucket) { return (std::int64_t{1} << bucket) - 1; }

void write_lengths(JsonWriter& json, const char* name, const LengthStatistics& lengths) {
  json.key(name).begin_object().member("count", lengths.count).member("empty", lengths.empty);
  json.member("shortest", lengths.shortest).member("mean", lengths.mean());
  json.member("longest", lengths.longest).key("histogram").begin_array();
  const ItemRange range = filled(lengths);
  for (std::int64_t bucket = range.begin; bucket < range.end; ++bucket)
    json.begin_object()
        .member("from", lowest_of(bucket))
        .member("to", highest_of(bucket))
        .member("count", lengths.buckets[static_cast<std::size_t>(bucket)])
        .end_object();
  json.end_array().end_object();
}

Checksum checksum_of(const IndexedDataset& data, std::int64_t document) {
  Hasher hasher;
  std::vector<std::int32_t> words;  // a sequence's length, its mode if there are any, its tokens
  for (std::int64_t i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    words = {static_cast<std::int32_t>(data.length(i))};
    if (data.multimodal()) words.push_back(static_cast<std::int32_t>(data.mode(i)));
    const std::size_t tokens = words.size();
    words.resize(tokens + static_cast<std::size_t>(data.length(i)));
    data.read(i, 0, std::span(words).subspan(tokens));
    hasher.update(std::as_bytes(std::span(words)));
  }
  const auto [high, low] = hasher.digest();
  return {high, low};
}

}  // namespace

void LengthStatistics::add(std::int64_t length) {
  shortest = count == 0 ? length : std::min(shortest, length);
  longest = std::max(longest, length);
  ++count;
  empty += length == 0 ? 1 : 0;
  tokens += length;
  ++buckets[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)))];
}

DatasetStatistics dataset_statistics(const IndexedDataset& data) {
  DatasetStatistics statistics;
  for (std::int64_t d = 0; d < data.documents(); ++d) {
    const ItemRange sequences = {data.document_begin(d), data.document_begin(d + 1)};
    statistics.documents.add(data.tokens(sequences));
    for (std::int64_t i = sequences.begin; i < sequences.end; ++i)
      statistics.sequences.add(data.length(i));
  }
  return statistics;
}

std::string statistics_text(const IndexedDataset& data) {
  const DatasetStatistics statistics = dataset_statistics(data);
  std::ostringstream out;
  out << data.prefix() << ": " << data.tokens() << " tokens, " << name_of(data.type());
  const auto describe = [&](const char* what, const LengthStatistics& lengths) {
    out << '\n'
        << lengths.count << ' ' << what << ", " << lengths.empty << " empty, of "
        << lengths.shortest << " to " << lengths.longest << " tokens, on average " << std::fixed
        << std::setprecision(1) << lengths.mean();
  };
  describe("documents", statistics.documents);
  describe("sequences", statistics.sequences);
  const auto& buckets = statistics.documents.buckets;
  const ItemRange range = filled(statistics.documents);
  const std::int64_t most = *std::max_element(buckets.begin(), buckets.end());
  for (std::int64_t bucket = range.begin; bucket < range.end; ++bucket) {
    const std::int64_t count = buckets[static_cast<std::size_t>(bucket)];
    const std::int64_t width = (count * kBarWidth + most - 1) / most;
    out << '\n'
        << std::setw(11) << lowest_of(bucket) << " to " << std::setw(11) << std::left
        << highest_of(bucket) << std::right << std::setw(12) << count
        << (count > 0 ? ' ' + std::string(static_cast<std::size_t>(width), '#') : "");
  }
  return out.str();
}

std::string statistics_json(const IndexedDataset& data) {
  const DatasetStatistics statistics = dataset_statistics(data);
  JsonWriter json;
  json.begin_object().member("schema", "mt-stats/1").member("prefix", data.prefix());
  json.member("dtype", name_of(data.type())).member("tokens", data.tokens());
  write_lengths(json, "documents", statistics.documents);
  write_lengths(json, "sequences", statistics.sequences);
  json.end_object();
  return json.text();
}

Checksum& Checksum::operator+=(const Checksum& other) {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

std::string Checksum::hex() const {
  std::ostringstream out;
  out << std::hex << std::setfill('0') << std::setw(16) << high << std::setw(16) << low;
  return out.str();
}

Checksum documents_checksum(const IndexedDataset& data, const Log& log) {
  Progress progress(log, "summing", "documents", static_cast<std::uint64_t>(data.documents()));
  const std::int64_t tiles = (data.documents() + kTileDocuments - 1) / kTileDocuments;
  std::vector<Checksum> sums(static_cast<std::size_t>(tiles));
  parallel_for(tiles, [&](std::int64_t tile) {
    const std::int64_t end = std::min(data.documents(), (tile + 1) * kTileDocuments);
    for (std::int64_t d = tile * kTileDocuments; d < end; ++d)
      sums[static_cast<std::size_t>(tile)] += checksum_of(data, d);
    progress.add(static_cast<std::uint64_t>(end - tile * kTileDocuments));
  });
  Checksum total;
  for (const Checksum& sum : sums) total += sum;
  return total;
}

}  // namespace mt
