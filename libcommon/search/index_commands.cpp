#include "search/index_commands.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <ostream>
#include <system_error>

#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/threads.h"
#include "search/index_file.h"
#include "search/placed_index.h"
#include "search/vector_reader.h"
#include "tensor/device.h"

namespace mt {
namespace {

// Vectors between two looks at signals, and numbers of several of them, at most.
constexpr std::int64_t kAtATime = 4096, kAtATimeOnGpu = 65536, kMostNumbers = 1 << 24;
constexpr std::int64_t kParts = 8;            // of these, in which they go to a GPU
constexpr std::int64_t kMostFound = 1 << 22;  // neighbours between two writes

constexpr const char* kInputs =
    "matrices of NumPy's, .npy, of float32, or lines of JSON with an \"embedding\", as mt-generate "
    "embed makes both; - is stdin";
constexpr const char* kColumnsHelp = "columns of vectors that come as float32 without a header";

std::int64_t rows_at_a_time(const DeviceOptions& compute, std::int64_t columns) {
  return std::clamp<std::int64_t>(kMostNumbers / columns, 1,
                                  compute.device() == Device::cpu ? kAtATime : kAtATimeOnGpu);
}

// Calls use(vectors) for those of the options' inputs, at most `at_once` at a time; the next of a
// file are read meanwhile.  `columns`: those that they have, or are to have.  What use() queues on
// a GPU is done when it returns.
template <class Options, class Use>
void for_vectors(const Options& options, std::optional<std::int64_t>& columns, std::int64_t at_once,
                 const RunContext& context, const Use& use) {
  Workers workers(options.threads);
  Buffer memory[2];  // of the largest input so far, as pinning takes long
  for (const std::string& input : options.inputs) {
    VectorReader reader(input, columns);
    columns = reader.columns();
    const std::int64_t most = std::min(at_once, rows_at_a_time(options.compute, *columns)),
                       rows_of =
                           std::clamp<std::int64_t>(reader.rows_left().value_or(most), 1, most);
    const auto numbers = static_cast<std::size_t>(rows_of * *columns);
    const std::size_t bytes = numbers * sizeof(float);
    for (Buffer& room : memory)
      if (room.bytes() < bytes)
        room = options.compute.device() == Device::cpu ? Buffer(Device::cpu, bytes)
                                                       : Buffer::pinned(bytes);
    const auto read = [&](int turn) {
      const std::span<float> into(static_cast<float*>(memory[turn].data()), numbers);
      std::int64_t rows = 0;
      workers.run([&] { rows = reader.read(into); });
      return into.first(static_cast<std::size_t>(rows * *columns));
    };
    std::span<const float> now = read(0);
    for (int turn = 1; !now.empty(); turn ^= 1) {
      context.checkpoint();
      const auto kind = reader.is_there() ? std::launch::async : std::launch::deferred;
      std::future<std::span<float>> next = std::async(kind, read, turn);
      use(now);
      now = next.get();
    }
  }
}

// As for_vectors(), but use() is given them where a GPU has them, [rows, columns]: a part is copied
// there while the next is read, through little memory, as pinning takes long.
template <class Use>
void for_vectors_there(const BuildIndexOptions& options, std::optional<std::int64_t>& columns,
                       const RunContext& context, const Use& use) {
  Workers workers(options.threads);
  Stream copies(options.compute.device());
  Buffer parts[2], there[2];  // of the largest input so far
  for (const std::string& input : options.inputs) {
    VectorReader reader(input, columns);
    columns = reader.columns();
    const std::size_t row = static_cast<std::size_t>(*columns) * sizeof(float);
    const std::int64_t most = rows_at_a_time(options.compute, *columns),
                       rows_of =
                           std::clamp<std::int64_t>(reader.rows_left().value_or(most), 1, most),
                       rows_of_part = (rows_of + kParts - 1) / kParts;
    for (Buffer& room : parts)
      if (const auto bytes = static_cast<std::size_t>(rows_of_part) * row; room.bytes() < bytes)
        room = Buffer::pinned(bytes);
    for (Buffer& room : there)
      if (const auto bytes = static_cast<std::size_t>(rows_of) * row; room.bytes() < bytes)
        room = Buffer(copies.device(), bytes);
    const auto read = [&](int turn) {
      std::int64_t rows = 0, got = 1;
      for (int part = 0; got > 0 && rows < rows_of; part ^= 1, rows += got) {
        const std::span<float> into(
            static_cast<float*>(parts[part].data()),
            static_cast<std::size_t>(std::min(rows_of_part, rows_of - rows) * *columns));
        workers.run([&] { got = reader.read(into); });
        copies.synchronize();  // the other part was copied
        device::copy(
            static_cast<std::byte*>(there[turn].data()) + static_cast<std::size_t>(rows) * row,
            into.data(), static_cast<std::size_t>(got) * row, copies.handle());
      }
      copies.synchronize();
      return rows;
    };
    std::int64_t now = read(0);
    for (int turn = 1; now > 0; turn ^= 1) {
      context.checkpoint();
      const auto kind = reader.is_there() ? std::launch::async : std::launch::deferred;
      std::future<std::int64_t> next = std::async(kind, read, turn);
      use(ConstTensor(there[turn ^ 1].tensor(DType::f32, {now, *columns})));
      now = next.get();
    }
  }
}

// All of them in `memory`.
std::span<const float> read_all(const BuildIndexOptions& options,
                                std::optional<std::int64_t>& columns, const RunContext& context,
                                Buffer& memory) {
  std::int64_t rows = 0, expected = 0;
  for (const std::string& input : options.inputs) {
    std::error_code unknown;  // which opening it tells of
    if (input == "-" || !std::filesystem::is_regular_file(input, unknown)) continue;
    const VectorReader reader(input, columns);
    columns = reader.columns();
    expected += reader.rows_left().value_or(0);
  }
  Workers workers(options.threads);
  const auto with_room = [&](std::int64_t more) {  // for so many rows behind those there are
    const auto row = static_cast<std::size_t>(*columns) * sizeof(float),
               used = static_cast<std::size_t>(rows) * row,
               needed = used + static_cast<std::size_t>(more) * row;
    if (needed > memory.bytes()) {
      const std::size_t bytes =
          std::max({needed, 2 * used, static_cast<std::size_t>(expected + 1) * row});
      expect_memory(bytes, concat("training on ", rows + more, " vectors or more"));
      Buffer larger(Device::cpu, bytes);
      if (used > 0) std::memcpy(larger.data(), memory.data(), used);
      memory = std::move(larger);
    }
    return std::span(static_cast<float*>(memory.data()) + rows * *columns,
                     static_cast<std::size_t>(more * *columns));
  };
  for (const std::string& input : options.inputs) {
    VectorReader reader(input, columns);
    columns = reader.columns();
    expected = std::max(expected, rows + reader.rows_left().value_or(0));
    const std::int64_t most = std::max<std::int64_t>(1, kMostNumbers / *columns);
    for (std::int64_t got = 1; got > 0; rows += got) {
      context.checkpoint();
      const std::int64_t left = reader.rows_left().value_or(most);
      const std::span<float> into = with_room(std::clamp<std::int64_t>(left, 1, most));
      workers.run([&] { got = reader.read(into); });
    }
  }
  return {static_cast<const float*>(memory.data()), static_cast<std::size_t>(rows * *columns)};
}

// The rows of a matrix that is there, where its file is mapped; nothing for what is to be read.
std::optional<std::span<const float>> map_all(const BuildIndexOptions& options,
                                              std::optional<std::int64_t>& columns,
                                              const RunContext& context,
                                              std::optional<MappedFile>& file) {
  const std::string& input = options.inputs.front();
  std::error_code unknown;  // which opening it tells of
  if (options.inputs.size() > 1 || input == "-" ||
      !std::filesystem::is_regular_file(input, unknown))
    return std::nullopt;
  VectorReader reader(input, columns);
  if (!reader.can_be_mapped()) return std::nullopt;
  columns = reader.columns();
  file.emplace(input);
  Workers workers(options.threads);
  const std::int64_t most = std::max<std::int64_t>(1, kMostNumbers / *columns);
  std::span<const float> all, some;
  do {
    context.checkpoint();
    workers.run([&] { some = reader.next_of(*file, most); });
    all = {all.empty() ? some.data() : all.data(), all.size() + some.size()};  // one behind another
  } while (!some.empty());
  return all;
}

std::optional<std::int64_t> columns_of(const VectorIndex& index, const std::string& path,
                                       std::optional<std::int64_t> given) {
  if (given && *given != index.columns())
    fail(Exit::bad_config, "--dim ", *given, ": ", path, " has vectors of ", index.columns(),
         " columns");
  return index.columns();
}

// vectors: on the host, or where products are made.
void add(VectorIndex& index, const auto& vectors, std::int64_t& next, Products& products) {
  const std::vector<std::uint8_t> codes = index.encode(vectors, products);
  products.run([&] { index.add_codes(codes, next); });
  next += std::ssize(codes) / index.code_size();
}

// A file that is refused before any work, where it is there.
AtomicFile output_of(const BuildIndexOptions& options) {
  refuse_inputs({&options.output, 1}, options.inputs);
  return {options.output, options.force};
}

void save(const VectorIndex& index, AtomicFile& file) {
  write_index(index, [&](Bytes bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace

void BuildIndexOptions::add_rest_to(CommandLine& cl) {
  cl.option("--output", &output, "FILE", "the index, in faiss's file format");
  cl.required("--output");
  cl.flag("--force", &force, "overwrite an existing file");
  cl.option("--dim", &columns, "N", kColumnsHelp, between(1, 1 << 20));
  compute.add_device_to(cl);
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
}

void BuildIndexOptions::add_train_to(CommandLine& cl) {
  cl.positionals("INPUT", &inputs, kInputs, 1);
  cl.section("Index");
  cl.option(
      "--retro-index-str,--index-str", &string, "STRING",
      "what it is made of: [PCAd,|OPQm[_d],|L2norm,][IVFn[k|M][_HNSWm],]CODE[,RFlat], and for CODE "
      "Flat, SQ8, SQ6, SQ4, SQfp16, SQbf16, PQm, PQmx4 or PQmx4fs[r][_b]");
  cl.required("--retro-index-str");
  add_rest_to(cl);
}

void BuildIndexOptions::add_add_to(CommandLine& cl) {
  cl.positional("INDEX", &index, "an index that is trained");
  cl.positionals("INPUT", &inputs, kInputs, 1);
  cl.section("Index");
  add_rest_to(cl);
}

void train_index(const BuildIndexOptions& options, bool with, const RunContext& context) {
  make_index("--retro-index-str", options.string, 0);  // refuses what is none
  AtomicFile file = output_of(options);
  std::optional<std::int64_t> columns = options.columns;
  Buffer memory;
  std::optional<MappedFile> file_of_all;
  std::optional<std::span<const float>> all = map_all(options, columns, context, file_of_all);
  if (!all) all = read_all(options, columns, context, memory);
  const std::span<const float> vectors = *all;
  VectorIndex index = make_index("--retro-index-str", options.string, *columns);
  Products products(options.threads, context.checkpoint, options.compute.device());
  index.train(vectors, products);
  const auto step = static_cast<std::size_t>(rows_at_a_time(options.compute, *columns) * *columns);
  std::int64_t next = 0;
  for (std::size_t at = 0; with && at < vectors.size(); at += step) {
    context.checkpoint();
    add(index, vectors.subspan(at, std::min(step, vectors.size() - at)), next, products);
  }
  save(index, file);
}

void add_to_index(const BuildIndexOptions& options, const RunContext& context) {
  AtomicFile file = output_of(options);
  VectorIndex index = read_index(options.index);
  std::optional<std::int64_t> columns = columns_of(index, options.index, options.columns);
  Products products(options.threads, context.checkpoint, options.compute.device());
  Progress progress(context.log, "adding", "vectors", 0);
  std::int64_t next = index.next_id();
  const auto add_some = [&](const auto& some) {
    const std::int64_t before = next;
    add(index, some, next, products);
    progress.add(static_cast<std::uint64_t>(next - before));
  };
  if (products.device() != Device::cpu && index.encodes_there())
    for_vectors_there(options, columns, context, add_some);
  else
    for_vectors(options, columns, kAtATimeOnGpu, context, add_some);
  progress.finish();
  save(index, file);
}

void MergeIndexOptions::add_to(CommandLine& cl) {
  cl.positionals("INDEX", &indexes, "indexes in faiss's file format, trained as one", 2);
  cl.section("Index");
  cl.option("--output", &output, "FILE", "the index of all their vectors");
  cl.required("--output");
  cl.flag("--force", &force, "overwrite an existing file");
}

void merge_indexes(const MergeIndexOptions& options, const RunContext& context) {
  refuse_inputs({&options.output, 1}, options.indexes);
  AtomicFile file(options.output, options.force);
  VectorIndex all = read_index(options.indexes.front());
  for (std::size_t i = 1; i < options.indexes.size(); ++i) {
    context.checkpoint();
    if (!all.merge(read_index(options.indexes[i])))
      fail(Exit::bad_config, options.indexes[i], ": was not trained as ", options.indexes.front(),
           " was: `train` one index, and `add` to it in parts");
  }
  save(all, file);
}

void QueryIndexOptions::add_to(CommandLine& cl) {
  cl.positional("INDEX", &index, "an index, in faiss's file format");
  cl.positionals("INPUT", &inputs, kInputs, 1);
  cl.section("Search");
  cl.option("--retro-query-num-neighbors-query,-k", &count, "N", "neighbours of each vector",
            between(1, 4096));
  cl.option("--retro-query-nprobe", &lists, "N", "lists of an IVF that are looked through",
            at_least(1));
  cl.option("--retro-query-ef-search", &ef_search, "N",
            "centres that a graph of them is searched with on the CPU; a GPU compares all",
            at_least(1));
  cl.option("--refine-factor", &refine, "F",
            "times as many are found as are asked for, before finer codes, as of RFlat, tell which "
            "of them are nearest; default: as the index says, 1",
            between(1, 4096));
  cl.option("--dim", &columns, "N", kColumnsHelp, between(1, 1 << 20));
  compute.add_device_to(cl);
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
}

// What was found for a row, with its number.
static std::string line_of(const FoundVectors& found, std::int64_t row, std::int64_t count,
                           std::int64_t id) {
  const auto begin = static_cast<std::size_t>(row * count);
  std::size_t end = begin;
  while (end < begin + static_cast<std::size_t>(count) && found.ids[end] >= 0) ++end;
  JsonWriter json;
  json.begin_object().member("id", id).key("neighbors").begin_array();
  for (std::size_t at = begin; at < end; ++at) json.value(found.ids[at]);
  json.end_array().key("distances").begin_array();
  for (std::size_t at = begin; at < end; ++at) json.value(found.distances[at]);
  return json.end_array().end_object().text() + "\n";
}

void query_index(const QueryIndexOptions& options, const RunContext& context, std::ostream& out) {
  VectorIndex index = read_index(options.index);
  if (index.size() == 0)
    fail(Exit::bad_data, options.index, ": has no vectors, which add puts into it");
  std::optional<std::int64_t> columns = columns_of(index, options.index, options.columns);
  Products products(options.threads, context.checkpoint, options.compute.device());
  Progress progress(context.log, "searching", "vectors", 0);
  std::int64_t id = 0;
  if (options.refine && !index.refinement)
    fail(Exit::bad_config, "--refine-factor ", *options.refine, ": ", options.index,
         " has no finer codes");
  IndexSearcher searcher(index, products);
  const IndexSearch search = {options.count, options.lists, options.ef_search, options.refine};
  const std::int64_t at_once = kMostFound / options.count;
  for_vectors(options, columns, at_once, context, [&](std::span<const float> some) {
    const FoundVectors found = searcher.search(some, search);
    std::vector<std::string> lines(some.size() / static_cast<std::size_t>(*columns));
    products.each(std::ssize(lines), [&](std::int64_t row) {
      lines[static_cast<std::size_t>(row)] = line_of(found, row, search.count, id + row);
    });
    for (const std::string& line : lines) out << line;
    id += std::ssize(lines);
    out.flush();
    progress.add(some.size() / static_cast<std::size_t>(*columns));
  });
  progress.finish();
}

}  // namespace mt
