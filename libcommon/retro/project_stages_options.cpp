#include <charconv>

#include "base/command.h"
#include "base/error.h"
#include "base/flag_list.h"
#include "retro/project_stages.h"
#include "search/vector_index.h"

namespace mt {

constexpr const char* kShare =
    "make every N-th file of chunks alone, from the I-th on, from 0: several processes may, and "
    "the "
    "same command without it makes what is missing";

static StageShare share_of(const std::string& text) {
  StageShare share;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, share.index);
  std::from_chars_result second = {first.ptr, std::errc::invalid_argument};
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/')
    second = std::from_chars(first.ptr + 1, end, share.count);
  if (second.ec != std::errc() || second.ptr != end || share.index < 0 ||
      share.count <= share.index)
    fail(Exit::usage, "--shard ", text, ": expected I/N, with I from 0 to N - 1");
  return share;
}

static bool trains(ProjectIndexOptions::Stage stage) {
  return stage == ProjectIndexOptions::Stage::train || stage == ProjectIndexOptions::Stage::build;
}

static bool adds(ProjectIndexOptions::Stage stage) {
  return stage == ProjectIndexOptions::Stage::add || stage == ProjectIndexOptions::Stage::build;
}

void ProjectIndexOptions::add_share_to(CommandLine& cl) {
  cl.option("--shard", &share_text, "I/N", kShare);
}

void ProjectIndexOptions::add_content_to(CommandLine& cl, Stage stage) {
  embedder.add_to(cl);
  cl.option("--retro-block-size", &block_size, "N",
            "chunks in a file; default: what config.json has, or 100000", at_least(1));
  cl.section("Index");
  cl.option(
      "--retro-index-str", &string, "STRING",
      "what it is made of, and its folder's name: [OPQm[_d],]IVFn[_HNSWm],PQm and others (see "
      "`train`)");
  cl.option("--retro-index-type", &type, "TYPE",
            "a folder's name, which Megatron-LM has for two ways to make the same",
            one_of({"faiss-base", "faiss-par-add"}));
  cl.option("--retro-index-train-load-fraction", &train_fraction, "F",
            "share of each block of embeddings that it is trained on", between(0, 1));
  if (stage != Stage::train)
    cl.option("--retro-index-add-load-fraction", &add_fraction, "F",
              "share of each block of codes that is added", between(0, 1));
  if (trains(stage))
    cl.off_switch("--no-retro-index-delete-training-embeddings", &delete_embeddings,
                  "keep the embeddings that the index was trained on");
  if (adds(stage))
    cl.off_switch("--no-retro-index-delete-added-codes", &delete_codes,
                  "keep the codes that were added");
}

void ProjectIndexOptions::add_to(CommandLine& cl, Stage stage) {
  cl.section("Project");
  cl.option("--retro-project-dir", &project, "DIR", "the project's folder");
  cl.required("--retro-project-dir");
  if (stage != Stage::verify) {
    cl.flag("--force", &force, "make anew what the project has with other settings");
    add_share_to(cl);
  }
  add_content_to(cl, stage);
  cl.required("--load");
  cl.required("--retro-index-str");
  constexpr const char* kOther = "nothing here depends on it: it is of another step";
  if (stage == Stage::train) imply(cl, kOther, {{"--retro-index-add-load-fraction", any(kNumber)}});
  if (!trains(stage)) imply(cl, kOther, {{"--no-retro-index-delete-training-embeddings"}});
  if (!adds(stage)) imply(cl, kOther, {{"--no-retro-index-delete-added-codes"}});
  if (trains(stage) || adds(stage))
    imply(cl, kOther,
          {{"--retro-query-ef-search", any(kInteger)},
           {"--retro-query-nprobe", any(kInteger)},
           {"--retro-query-num-neighbors-query", any(kInteger)},
           {"--retro-query-num-neighbors-save", any(kInteger)}});
  cl.section("Speed and talk");
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
}

void ProjectIndexOptions::complete() {
  make_index("--retro-index-str", string, 0);  // refuses what is none
  embedder.compute.complete(true);
  embedder.threads = threads;
  share = share_of(share_text);
}

// As Python formats it.
static std::string three_digits(double fraction) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, fraction, std::chars_format::fixed, 3);
  return {text, end.ptr};
}

std::int64_t ProjectIndexOptions::blocks_of(const RetroProject& of, bool keeps) const {
  constexpr const char* kKey = "retro_block_size";
  if (block_size) {
    const RetroProject::Settings given = {{kKey, std::to_string(*block_size)}};
    if (keeps)
      of.add_settings(given, force);
    else
      of.check_settings(given);
    return *block_size;
  }
  const RetroProject::Settings all = of.settings();
  const auto found = all.find(kKey);
  if (found == all.end() || found->second == "null") return kChunksInFile;
  const std::int64_t size = of.number(kKey, "--retro-block-size");
  if (size < 1) fail(Exit::bad_data, of.path("config.json"), ": ", kKey, ": is ", size);
  return size;
}

std::string ProjectIndexOptions::folder() const { return type + "/" + string; }

std::string ProjectIndexOptions::empty_file() const {
  return concat(folder(), "/empty_", three_digits(train_fraction), ".faissindex");
}

std::string ProjectIndexOptions::added_file() const {
  return concat(folder(), "/added_", three_digits(train_fraction), "_", three_digits(add_fraction),
                ".faissindex");
}

void ProjectQueryOptions::add_search_to(CommandLine& cl) {
  run.add_to(cl);
  cl.section("Search");
  cl.option("--retro-query-num-neighbors-query", &count, "N",
            "chunks that are found, of which those of a sample's own documents are dropped",
            between(1, 4096));
  cl.option("--retro-query-num-neighbors-save", &kept, "N", "neighbours that are kept, at most",
            between(1, 4096));
  cl.option("--retro-query-nprobe", &lists, "N", "lists of an IVF that are looked through",
            at_least(1));
  cl.option("--retro-query-ef-search", &ef_search, "N",
            "centres that a graph of them is searched with on the CPU; a GPU compares all",
            at_least(1));
}

void ProjectQueryOptions::add_to(CommandLine& cl) {
  index.add_to(cl, ProjectIndexOptions::Stage::query);
  add_search_to(cl);
}

void ProjectQueryOptions::add_verify_to(CommandLine& cl) {
  index.add_to(cl, ProjectIndexOptions::Stage::verify);
  add_search_to(cl);
  cl.section("Comparison");
  cl.option("--fraction,--retro-task-validate", &fraction, "F",
            "share of the blocks that are made again; default: one of each split", between(0, 1));
}

void ProjectQueryOptions::complete() {
  index.complete();
  if (kept > count)
    fail(Exit::usage, "--retro-query-num-neighbors-save ", kept,
         ": more than the --retro-query-num-neighbors-query ", count, " that are found");
}

void ProjectEmbedOptions::add_to(CommandLine& cl) {
  cl.section("Project");
  cl.option("--retro-project-dir", &project, "DIR", "the project's folder");
  cl.required("--retro-project-dir");
  cl.option("--db", &database, "NAME",
            "which chunks: those of training, of validation, or an index's",
            one_of({"train", "valid", "sampled"}));
  embedder.add_to(cl);
  cl.required("--load");
  cl.section("Output");
  cl.option("--output", &output, "PATH",
            "a folder of HDF5 blocks, `data` in each; a matrix of float32, if its name ends in "
            ".npy; or -, lines of JSON on stdout");
  cl.required("--output");
  cl.flag("--force", &force, "make anew what is there");
  cl.option("--retro-block-size", &block_size, "N",
            concat("chunks in a file of the folder; default: ", kChunksInFile), at_least(1));
  cl.option("--shard", &share_text, "I/N", kShare);
  cl.section("Speed and talk");
  cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", at_least(0));
}

void ProjectEmbedOptions::complete() {
  embedder.compute.complete(true);
  embedder.threads = threads;
  share = share_of(share_text);
  if (output != "-" && !output.ends_with(".npy")) return;
  for (const auto& [given, name] :
       {std::pair{block_size.has_value(), "--retro-block-size"},
        std::pair{!share.is_whole(), "--shard"}, std::pair{force && output == "-", "--force"}})
    if (given)
      fail(Exit::usage, name, ": is of a folder of blocks, and --output ", output, " is none");
}

void StageSummary::note_left(const Log& log) const {
  if (!complete)
    log.note(concat(files.left,
                    " files are left to others; the same command without --shard makes what is "
                    "missing of them, and goes on"));
}

void StageSummary::write(JsonWriter& json) const {
  json.begin_object()
      .member("schema", "mt-retro-stage/1")
      .member("made", files.made)
      .member("found", files.found)
      .member("left", files.left)
      .member("complete", complete)
      .end_object();
}

}  // namespace mt
