// ProjectNeighbors: what a project has as neighbours, in files as Megatron-LM's h5py writes them
// and in our own.
#include "retro/neighbors.h"

#include <gtest/gtest.h>

#include "retro/chunk_db.h"
#include "tests/data/support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int64_t>;

RunContext quiet() {
  RunContext context;
  context.log = Log({.program = "test", .level = Log::Level::quiet, .rank = {}, .descriptor = -1});
  return context;
}

// A project whose database has four chunks of four tokens of GPT-2's, the last of them of one, and
// neighbours of five chunks of training, in two files, and of three of validation.
struct Project {
  Project() {
    fs::create_directories(folder.path("data"));
    const ChunkDbOptions options{.project = folder.path(""),
                                 .data_path = {"a"},
                                 .split = "100,0,0",
                                 .chunk_length = 4,
                                 .index_samples = 1,
                                 .gpt = {.type = "GPT2BPETokenizer",
                                         .vocab_file = MT_TESTDATA "/gpt2_bpe/vocab.json",
                                         .merge_file = MT_TESTDATA "/gpt2_bpe/merges.txt"},
                                 .bert = {.type = "BertWordPieceLowerCase",
                                          .vocab_file = MT_TESTDATA "/wordpiece/vocab.txt"},
                                 .threads = 1};
    const auto tokenizer = make_tokenizer(options.gpt);
    std::vector<std::int32_t> ids;
    tokenizer->encode("ABCDEFGH", ids);
    EXPECT_EQ(ids.size(), 8u);
    eod = tokenizer->eod();
    std::vector<std::int32_t> second(ids.begin() + 2, ids.begin() + 7);
    ids.push_back(eod);
    second.push_back(eod);
    write_documents(folder.path("data/a"), TokenType::u16, {ids, second});
    tokens = ids;
    build_chunk_db(options, quiet());
    name("null");
    write("train_1", "0-3", {3, 2, 1, 0, -1, -1});
    write("train_1", "3-5", {2, 2, 1, -1});
    write("valid_2", "0-3", {0, 1, 2, 3, 0, 0});
    name(R"({"test":null,"train":"train_1","valid":"valid_2"})");
  }
  void name(const std::string& dirs) const {
    RetroProject(folder.path("")).add_settings({{"retro_neighbor_dirs", dirs}}, true);
  }
  void write(const std::string& of, const std::string& range, const Numbers& neighbors) const {
    fs::create_directories(folder.path("query/" + of));
    Hdf5Writer writer(folder.path("query/" + of + "/" + range + ".hdf5"), true);
    writer.write<std::int64_t>(
        "neighbors", {.type = Hdf5Type::i64, .rows = std::ssize(neighbors) / 2, .columns = 2},
        neighbors);
    writer.finish();
    writer.commit();
  }
  ProjectNeighbors open() const { return ProjectNeighbors(RetroProject(folder.path(""))); }
  std::string wrong() const {
    return error_of([&] { open(); });
  }

  Scratch folder;
  std::vector<std::int32_t> tokens;
  std::int32_t eod = 0;
};

TEST(ProjectNeighbors, GivesThoseOfChunksOverFiles) {
  const Project project;
  const ProjectNeighbors found = project.open();
  EXPECT_EQ(found.queried(Split::train), 5);
  EXPECT_EQ(found.queried(Split::valid), 3);
  EXPECT_EQ(found.queried(Split::test), 0);
  EXPECT_EQ(found.neighbors(Split::train, 1, 3, 2), (Numbers{1, 0, -1, -1, 2, 2}));
  EXPECT_EQ(found.neighbors(Split::train, 0, 5, 1), (Numbers{3, 1, -1, 2, 1}));
  EXPECT_EQ(found.neighbors(Split::valid, 1, 2, 2), (Numbers{2, 3, 0, 0}));
  EXPECT_EQ(error_of([&] { found.neighbors(Split::valid, 0, 1, 3); }),
            "78 --retro-num-neighbors 3: " + project.folder.path("query/valid_2/0-3.hdf5") +
                " has 2 of each chunk");
}

TEST(ProjectNeighbors, ReadsChunksWithPadding) {
  const Project project;
  const ProjectNeighbors found = project.open();
  ASSERT_EQ(found.size(), 4);
  const auto chunk = [&](std::int64_t number) {
    std::vector<std::int32_t> tokens(4);
    found.read(number, tokens);
    return tokens;
  };
  const std::vector<std::int32_t>& t = project.tokens;
  EXPECT_EQ(chunk(0), (std::vector<std::int32_t>{t[0], t[1], t[2], t[3]}));
  EXPECT_EQ(chunk(1), (std::vector<std::int32_t>{t[4], t[5], t[6], t[7]}));
  EXPECT_EQ(chunk(3), (std::vector<std::int32_t>{t[6], project.eod, project.eod, project.eod}));
}

// testdata/retro: by h5py.
TEST(ProjectNeighbors, ReadsWhatH5pyWrites) {
  const Hdf5Reader file(MT_TESTDATA "/retro/train.hdf5");
  ASSERT_EQ(file.columns("neighbors"), 3);
  ASSERT_EQ(file.rows("neighbors", Hdf5Type::i64, 3), 160);
  EXPECT_EQ(file.read<std::int64_t>("neighbors", 5, 1), (Numbers{-1, -1, -1}));
}

TEST(ProjectNeighbors, RefusesWhatIsMissingOrDamaged) {
  const Project project;
  const std::string query = project.folder.path("query/"), bad = "65 " + query;
  project.write("train_1", "3-5", {2, 4, 1, -1});
  EXPECT_EQ(error_of([&] { project.open().neighbors(Split::train, 0, 4, 2); }),
            bad + "train_1/3-5.hdf5: neighbors: chunk 4 of a database of 4");
  project.write("train_1", "3-5", {2, 1});
  EXPECT_EQ(project.wrong(), bad +
                                 "train_1/3-5.hdf5: neighbors: has rows for 1 chunks, expected "
                                 "some for 2");
  write_file_atomically(query + "train_1/3-5.hdf5", "damaged", true);
  EXPECT_EQ(project.wrong(), bad + "train_1/3-5.hdf5: no HDF5 file, or a damaged one");
  fs::remove(query + "train_1/0-3.hdf5");
  EXPECT_EQ(project.wrong(),
            bad + "train_1: has no neighbours of chunk 0, but of others behind it");
  fs::remove_all(query + "train_1");
  EXPECT_EQ(project.wrong(), "66 " + query +
                                 "train_1: no such folder, expected neighbours; see "
                                 "mt-retro-index query-neighbors");
  project.name("3");
  EXPECT_EQ(project.wrong(), "65 " + project.folder.path("config.json") +
                                 ": retro_neighbor_dirs: names no folders of neighbours; see "
                                 "mt-retro-index query-neighbors");
}

}  // namespace
}  // namespace mt
