// Metadatasets: how often an epoch has the samples of each folder, and what is refused.
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/energon/metadataset.h"
#include "tests/data/support.h"

namespace mt {
namespace {

const std::string kFolders = std::string(MT_TESTDATA) + "/energon";

// A file of it, whose part "train" this is.
std::string made(const Scratch& scratch, const std::string& name, const std::string& train,
                 const char* kind = "MetadatasetV2") {
  std::string text =
      concat("__module__: megatron.energon\n__class__: ", kind, "\nsplits:\n  train:\n", train);
  for (std::size_t at = 0; (at = text.find("FOLDERS", at)) != text.npos;)
    text.replace(at, 7, kFolders);
  const std::string path = scratch.path(name);
  write_file_atomically(path, text, true);
  return path;
}

std::string shown(const std::vector<EnergonSource>& sources) {
  std::string all;
  for (const EnergonSource& source : sources)
    all += concat(source.folder.substr(source.folder.rfind('/') + 1), " ", source.part, " ",
                  source.repetitions, "\n");
  return all;
}

std::string wrong(const std::string& path, const std::string& part = "train") {
  try {
    energon_sources(path, part);
  } catch (const Error& error) {
    return concat(static_cast<int>(error.code()), " ", error.what());
  }
  return "nothing";
}

// The first folder's part for training has two samples, the second's one.
TEST(Metadataset, WeightsBecomeRepetitions) {
  const Scratch scratch;
  const std::string list =
      "    - {weight: 3, path: FOLDERS/questions, subflavors: {a: 1}}\n"
      "    - weight: 1.0\n"
      "      path: FOLDERS/choices\n"
      "      split_part: train\n"
      "      shuffle_over_epochs_multiplier: 5\n"
      "    - {weight: 0, path: FOLDERS/crude}\n";
  const char* const kShown = "questions train 1.5\nchoices train 1\ncrude train 0\n";
  EXPECT_EQ(shown(energon_sources(made(scratch, "a.yaml", "    blend:\n" + list), "train")),
            kShown);
  EXPECT_EQ(shown(energon_sources(made(scratch, "b.yaml", "    datasets:\n" + list, "Metadataset"),
                                  "train")),
            kShown);
}

TEST(Metadataset, NamesOthers) {
  const Scratch scratch;
  const std::string inner = made(scratch, "inner.yaml",
                                 "    blend:\n"
                                 "    - {weight: 1, path: FOLDERS/questions}\n"
                                 "    - {weight: 3, path: FOLDERS/crude}\n");
  // Weights 0.5 x 0.25 of two samples, 0.5 x 0.75 of two and 0.5 of one.
  EXPECT_EQ(shown(energon_sources(made(scratch, "outer.yaml",
                                       "    blend:\n"
                                       "    - path: inner.yaml\n"
                                       "    - path: FOLDERS/choices\n"),
                                  "train")),
            "questions train 1\ncrude train 3\nchoices train 8\n");
  EXPECT_EQ(shown(energon_sources(made(scratch, "once.yaml", "    path: inner.yaml\n"), "train")),
            "questions train 1\ncrude train 3\n");
  const std::string often =
      made(scratch, "often.yaml",
           "    blend_epochized:\n"
           "    - {repetitions: 2, path: FOLDERS/questions, split_part: val}\n"
           "    - {repetitions: 0.5, path: FOLDERS/crude}\n");
  EXPECT_EQ(shown(energon_sources(often, "train")), "questions val 2\ncrude train 0.5\n");
  EXPECT_EQ(shown(energon_sources(made(scratch, "more.yaml",
                                       "    blend_epochized:\n"
                                       "    - {repetitions: 3, path: often.yaml}\n"),
                                  "train")),
            "questions val 6\ncrude train 1.5\n");
  EXPECT_NE(wrong(made(scratch, "mixed.yaml", "    blend:\n    - path: often.yaml\n"))
                .find("questions: comes by repetitions"),
            std::string::npos)
      << wrong(scratch.path("mixed.yaml"));
}

// Only what is learnt is blended.
TEST(Metadataset, OtherPartsComeOnce) {
  const Scratch scratch;
  const std::string path = made(scratch, "a.yaml",
                                "    path: FOLDERS/crude\n"
                                "  val:\n"
                                "    blend:\n"
                                "    - {weight: 9, path: FOLDERS/questions}\n"
                                "    - {weight: 1, path: FOLDERS/choices, split_part: train}\n");
  EXPECT_TRUE(has_energon_part(path, "val"));
  EXPECT_FALSE(has_energon_part(path, "test"));
  EXPECT_EQ(shown(energon_sources(path, "val")), "questions val 1\nchoices train 1\n");
  EXPECT_EQ(shown(energon_sources(path, "train")), "crude train 1\n");
  EXPECT_EQ(wrong(path, "test"), concat("65 ", path, ": splits: has no test"));
}

TEST(Metadataset, RefusesByName) {
  const Scratch scratch;
  const std::string path = scratch.path("w.yaml");
  const auto wrong_of = [&](const std::string& train) {
    const std::string what = wrong(made(scratch, "w.yaml", train));
    const std::size_t at = what.find(path);
    return at == what.npos ? what : what.substr(0, at) + what.substr(at + path.size());
  };
  const std::string expected =
      " is not read here; expected blend, blend_epochized or a path, with weight or repetitions, "
      "split_part, subflavors and shuffle_over_epochs_multiplier";
  EXPECT_EQ(wrong_of("    join:\n    - path: FOLDERS/crude\n"), "78 : train: join:" + expected);
  EXPECT_EQ(wrong_of("    path: FOLDERS/crude\n    subset: {range: [0%, 50%]}\n"),
            "78 : train: subset:" + expected);
  EXPECT_EQ(wrong_of("    blend:\n    - {path: FOLDERS/crude, repetitions: 2}\n"),
            "78 : train: repetitions:" + expected);
  EXPECT_EQ(wrong_of("    path: FOLDERS/crude\n    subflavors: {SplitByLine: true}\n"),
            "78 : train: subflavors: SplitByLine:" + expected);
  EXPECT_EQ(wrong_of("    blend:\n    - {path: FOLDERS/crude, weight: -1}\n"),
            "65 : train: weight: expected a number, at least 0");
  EXPECT_EQ(wrong_of("    blend:\n    - {path: FOLDERS/crude, weight: 0}\n"),
            "65 : train: blend: the weights are all 0");
  EXPECT_EQ(wrong_of("    blend: []\n"), "65 : train: blend: expected a list of mappings");
  EXPECT_EQ(wrong_of("    blend:\n    - {weight: 1}\n"), "65 : train: path: expected a text");
  EXPECT_EQ(wrong_of("    path: w.yaml\n"), "65 : more than 16 files that name each other");
  EXPECT_NE(wrong_of("    path: none.yaml\n").find("none.yaml"), std::string::npos);
  EXPECT_EQ(wrong_of("    blend_epochized:\n    - {repetitions: 1.0e+18, path: FOLDERS/crude}\n"),
            concat("65 : ", kFolders, "/crude: its samples would come 1e+18 times, at most 10000"));
  EXPECT_EQ(wrong_of("    blend:\n    - {weight: 1000000, path: FOLDERS/crude}\n"
                     "    - {weight: 1, path: FOLDERS/questions}\n"),
            concat("65 : ", kFolders,
                   "/crude: its samples would come 1e+06 times before others have come once, at "
                   "most 10000"));
  // Each of 16 files names the next ten times: 10^15 folders.
  std::string ten = "    blend:\n";
  for (int i = 0; i < 10; ++i) ten += "    - path: NEXT.yaml\n";
  for (int i = 1; i < 16; ++i) {
    std::string list = ten;
    for (std::size_t at = 0; (at = list.find("NEXT", at)) != list.npos;)
      list.replace(at, 4, concat("w", i + 1));
    made(scratch, concat("w", i, ".yaml"), list);
  }
  made(scratch, "w16.yaml", "    path: FOLDERS/crude\n");
  EXPECT_NE(wrong(scratch.path("w1.yaml")).find(": train: more than 10000 folders"),
            std::string::npos);
  write_file_atomically(path, "a: 1\n", true);
  EXPECT_EQ(wrong(path),
            concat("65 ", path, ": expected a __class__, MetadatasetV2 or Metadataset"));
}

}  // namespace
}  // namespace mt
