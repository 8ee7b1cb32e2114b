#include <filesystem>

#include "base/error.h"
#include "tests/post/finetune_layouts.h"
#include "tests/post/sft_run.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

// As many texts in samples of their own, and in as few samples as they fit into: the same loss and
// gradient of the one step that takes them all.
TEST_F(SftRun, PackedIsAsUnpacked) {
  for (const SftOptions& of_kind : {options(), hybrid(options()), further(options())}) {
    SftOptions o = of_kind;
    o.data.valid_split = 0;
    o.run.compute.dtype = "fp64";
    o.run.batch.global_batch_size = kTexts;  // packed, the rest of the step is padding
    o.packing = "none";
    const LayoutRun expected = run_of(o, 1);
    for (const char* const packing : {"mffd", "bfd", "knapsack"}) {
      o.packing = packing;
      const LayoutDifference difference = largest_difference(run_of(o, 1), expected);
      EXPECT_LT(difference.value, 1e-9)
          << of_kind.model_type << ", " << packing << ": " << difference.where;
    }
  }
}

// Losses of the tokens that are learnt alone, and of all, of which the others count nothing.
TEST_F(SftRun, LearntTokensAreAsAll) {
  std::string whole;
  while (whole.size() < 30) whole += "qxz";  // each a token
  File file = File::create(path("whole.jsonl"));
  file.write(concat(R"({"text":")", whole, "\"}\n"));
  file.close();
  const auto with = [&](const FinetuneLayout& layout, bool all, bool predicts_further = false) {
    SftOptions o = predicts_further ? further(options()) : options();
    o.seq_length = o.model.max_position_embeddings = 32;
    o.data.valid_split = 0;
    if (predicts_further) o.run.batch.global_batch_size = kTexts;
    if (all) o.data.valid = {path("whole.jsonl")};  // of which every token is
    o.run.compute.dtype = "fp64";
    o.packing = "none";
    layout.divide(o.run);
    const FieldSpecs fields = open_sft(o, quiet())->fields();
    EXPECT_EQ(std::ranges::count(fields, Field::rows, &FieldSpec::field), all ? 0 : 1);
    return run_of(o, predicts_further ? 1 : 3);  // of further tokens one step takes all texts
  };
  const LayoutRun expected = with({}, true);
  for (const FinetuneLayout& layout :
       {FinetuneLayout{}, FinetuneLayout{.data = 2, .distributed = true},
        FinetuneLayout{.tensor = 2}, FinetuneLayout{.tensor = 2, .shares_rows = true},
        FinetuneLayout{.pipeline = 2}, FinetuneLayout{.context = 2},
        FinetuneLayout{.tensor = 2, .pipeline = 2, .context = 2, .shares_rows = true}}) {
    const LayoutDifference difference = largest_difference(with(layout, false), expected);
    EXPECT_LT(difference.value, 1e-9) << layout.name() << ": " << difference.where;
  }
  const LayoutDifference further = largest_difference(with({}, false, true), with({}, true, true));
  EXPECT_LT(further.value, 1e-9) << further.where;
}

class SftLayouts : public SftRun, public testing::WithParamInterface<FinetuneLayout> {
 protected:
  SftOptions divided(const FinetuneLayout& layout, const std::string& save = "") const {
    SftOptions o = options(save);
    o.run.batch.global_batch_size = 4;
    layout.divide(o.run);
    return o;
  }
};

INSTANTIATE_TEST_SUITE_P(All, SftLayouts, testing::ValuesIn(finetune_layouts(9)),
                         [](const auto& layout) { return layout.param.name(); });

TEST_P(SftLayouts, AsOneRank) {
  const auto with = [&](const FinetuneLayout& layout, std::int64_t micro, const char* comm) {
    SftOptions o = divided(layout);
    o.run.compute.dtype = "fp64";
    o.run.batch.micro_batch_size = micro;
    o.run.ranks.parallel.cp_comm_type = {comm};
    return run_of(o, 3);
  };
  const LayoutRun expected = with({}, 1, "p2p");
  for (const std::int64_t micro : {1, 2})
    for (const char* const comm : {"p2p", "a2a"}) {
      // Two heads of keys are exchanged among two ranks.
      const FinetuneLayout& layout = GetParam();
      if (comm == std::string_view("a2a") && (layout.context == 1 || layout.tensor > 1)) continue;
      const LayoutDifference difference = largest_difference(with(layout, micro, comm), expected);
      EXPECT_LT(difference.value, 1e-9) << difference.where << ", " << micro << ", " << comm;
    }
}

TEST_P(SftLayouts, GoesOnToTheBit) {
  goes_on_to_the_bit([&](const std::string& save) { return divided(GetParam(), save); });
}

// What noise is added to a text depends on no layout, but on the text.
TEST_F(SftRun, NoiseIsThatOfOneRank) {
  const auto with = [&](const FinetuneLayout& layout, double noise) {
    SftOptions o = options();
    o.run.compute.dtype = "fp64";
    o.model.neftune_alpha = noise;
    layout.divide(o.run);
    return run_of(o, 3);
  };
  const LayoutRun expected = with({}, 5);
  EXPECT_GT(largest_difference(with({}, 0), expected).value, 1e-3);
  for (const FinetuneLayout& layout :
       {FinetuneLayout{.data = 2}, FinetuneLayout{.tensor = 2, .shares_rows = true},
        FinetuneLayout{.context = 2}, FinetuneLayout{.context = 4},
        FinetuneLayout{.tensor = 2, .context = 2, .shares_rows = true},
        FinetuneLayout{.data = 2, .tensor = 2, .pipeline = 2, .distributed = true}}) {
    const LayoutDifference difference = largest_difference(with(layout, 5), expected);
    EXPECT_LT(difference.value, 1e-9) << layout.name() << ": " << difference.where;
  }
}

// Further tokens, too, are learnt alike by one rank and by several, and by a run that goes on.
TEST_F(SftRun, FurtherTokensAreThoseOfOneRank) {
  const auto with = [&](const FinetuneLayout& layout) {
    SftOptions o = further(options());
    o.run.batch.micro_batch_size = 1;
    o.run.compute.dtype = "fp64";
    layout.divide(o.run);
    return run_of(o, 3);
  };
  const LayoutRun expected = with({});
  for (const FinetuneLayout& layout :
       {FinetuneLayout{.data = 2}, FinetuneLayout{.context = 2},
        FinetuneLayout{.data = 2, .tensor = 2, .pipeline = 2, .distributed = true}}) {
    const LayoutDifference difference = largest_difference(with(layout), expected);
    EXPECT_LT(difference.value, 1e-9) << layout.name() << ": " << difference.where;
  }
  goes_on_to_the_bit([&](const std::string& save) {
    SftOptions o = further(options(save));
    o.run.batch.micro_batch_size = 2;
    return o;
  });
}

// Steps, evaluations and the last checkpoint of a run that ended after its second step and went on.
TEST_F(SftRun, GoesOnToTheBit) {
  SftOptions whole = options("whole");
  whole.data.epochs = 2;
  whole.model.neftune_alpha = 5;
  train_with(whole);
  SftOptions part = options("parts");
  part.data.epochs = 2;
  part.model.neftune_alpha = 5;
  part.run.checkpoint.load = part.run.checkpoint.save;
  part.run.length.exit_interval = 2;
  train_with(part);
  part.run.length.exit_interval.reset();
  train_with(part);
  const std::string last = fs::path(read_file(path("whole/latest_checkpointed_iteration.txt")));
  EXPECT_EQ(read_file(path("parts/latest_checkpointed_iteration.txt")), last);
  const std::string folder = concat("/iter_", std::string(7 - last.size(), '0'), last);
  int compared = 0;
  for (const auto& file : fs::directory_iterator(path("whole") + folder)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".distcp")) continue;
    EXPECT_TRUE(read_file(path("parts") + folder + "/" + name) == read_file(file.path().string()))
        << name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST_F(SftRun, AnEpochIsAsLongAsTheData) {
  SftOptions o = options("run");
  o.data.valid_split = 0;
  o.packing = "none";
  o.data.epochs = 3;
  o.run.batch.global_batch_size = 16;  // 72 samples are four steps and a half
  train_with(o);
  EXPECT_EQ(read_file(path("run/latest_checkpointed_iteration.txt")), "5");
  const std::string results = read_file(path("run/results.json"));
  EXPECT_TRUE(results.starts_with(R"({"schema":"mt-results/1","step":5,"tokens":1280,)"))
      << results;
  EXPECT_EQ(results.find("val_loss"), std::string::npos);
}

TEST_F(SftRun, CollectsTheBadLinesOfAllFiles) {
  SftOptions o = options();
  write_file_atomically(path("a.jsonl"), "{\n", false);
  write_file_atomically(path("b.jsonl"), "[\n", false);
  o.data.valid = {path("b.jsonl"), o.data.train.front()};
  o.data.train.push_back(path("a.jsonl"));
  o.data.on_error = "quarantine=" + path("bad");
  open_sft(o, quiet());
  EXPECT_EQ(read_file(path("bad")), "{\n[\n");
}

TEST_F(SftRun, SaysWhyThereIsNothingToLearn) {
  SftOptions o = options();
  o.seq_length = o.model.max_position_embeddings = 2;
  try {
    open_sft(o, quiet());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    EXPECT_NE(std::string(error.what()).find("longer than 2 tokens"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace mt
