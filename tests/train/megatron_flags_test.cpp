// Every flag of Megatron-LM is supported, implied or refused, takes what it takes there, and has
// the default that it has there.
#include "train/options/megatron_flags.h"

#include <gtest/gtest.h>

#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "train/options/pretrain_options.h"

namespace mt {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char separator) {
  Words words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) words.push_back(word);
  return words;
}

struct Row {  // of testdata/megatron_flags.tsv, or of that of other releases
  Words names;
  std::string form, standard;  // "-" for no default
  Words choices;
};

std::vector<Row> read_rows(const char* path) {
  std::vector<Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const Words cells = split(line, '\t');
    if (cells.size() != 4) continue;
    rows.push_back({split(cells[0], ','), cells[1], cells[2],
                    cells[3] == "-" ? Words() : split(cells[3], ',')});
  }
  return rows;
}

class MegatronFlags : public testing::Test {
 protected:
  MegatronFlags() : cl_("mt-pretrain", {}) { options_.add_to(cl_, {"none"}); }

  const Option* find(const std::string& name) const {
    for (const Option& option : cl_.table().options)
      if (option.answers_to(name)) return &option;
    return nullptr;
  }

  const Option& at(const Row& row) const {
    const Option* option = find(row.names.front());
    if (option == nullptr) throw std::runtime_error(row.names.front() + " is missing");
    return *option;
  }

  PretrainOptions options_;
  CommandLine cl_;
  const std::vector<Row> rows_ = read_rows(MT_TESTDATA "/megatron_flags.tsv");
  const std::vector<Row> others_ = read_rows(MT_TESTDATA "/megatron_release_flags.tsv");
  const std::vector<Row> all_ = [this] {
    std::vector<Row> all = rows_;
    all.insert(all.end(), others_.begin(), others_.end());
    return all;
  }();
};

std::string form_of(const Option& option) {
  if (!option.takes_value()) return "flag";
  return option.type() + (option.takes_list() ? "s" : "");
}

std::string expected_form(const Row& row) {
  if (row.form == "off-switch") return "flag";
  return row.form.starts_with("text") ? "string" + row.form.substr(4) : row.form;
}

// An integer there may be any number here.
bool same_form(const std::string& ours, const std::string& theirs) {
  return ours == theirs || (ours == "number" && theirs == "integer");
}

bool same_value(const std::string& ours, const std::string& theirs) {
  const auto number = [](const std::string& text) -> std::optional<double> {
    double value;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
  };
  return ours == theirs || (number(ours) && number(ours) == number(theirs));
}

TEST_F(MegatronFlags, EachIsThereOnceUnderAllItsNames) {
  EXPECT_EQ(rows_.size(), 455u);
  EXPECT_EQ(others_.size(), 489u);
  for (const Row& row : all_)
    for (const std::string& name : row.names) {
      ASSERT_NE(find(name), nullptr) << name;
      EXPECT_EQ(find(name), find(row.names.front())) << name;
    }
}

// Of examples/multimodal/multimodal_args.py of that release, those that are no options of ours.
const std::vector<std::string> kOfImageText = {"--allow-missing-vision-projection-checkpoint",
                                               "--dataloader-save",
                                               "--dataloader-seq-length",
                                               "--dataset-config",
                                               "--disable-vision-class-token",
                                               "--eos-id",
                                               "--force-system-message",
                                               "--image-tag-type",
                                               "--language-model-type",
                                               "--num-frames",
                                               "--online-evaluation-config",
                                               "--packing-buffer-size",
                                               "--packing-seq-length",
                                               "--recompute-vision",
                                               "--special-tokens",
                                               "--tokenizer-prompt-format",
                                               "--use-loss-scaling",
                                               "--use-te",
                                               "--vision-model-type"};

// Of Megatron-LM's main between two of those releases, likewise.
const std::vector<std::string> kOfMain = {"--enable-hyper-connections"};

// Of its forks.
std::vector<std::string> fork_flags() {
  std::istringstream file(read_file(MT_TESTDATA "/fork_flags.tsv"));
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("--")) names.push_back(line.substr(0, line.find('\t')));
  return names;
}

TEST_F(MegatronFlags, NoOthersAreListed) {
  std::set<std::string> names;
  for (const std::vector<std::string>& further : {kOfImageText, kOfMain})
    for (const std::string& name : further) {
      EXPECT_NE(find(name), nullptr) << name;
      names.insert(name);
    }
  for (const Row& row : all_) names.insert(row.names.begin(), row.names.end());
  for (const std::string& name : fork_flags()) {
    EXPECT_NE(find(name), nullptr) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (const Option& option : cl_.table().options)
    EXPECT_TRUE(option.has_variable() || names.contains(option.name())) << option.name();
}

// A refused flag need not say what it takes; an implied one takes what it takes there.
TEST_F(MegatronFlags, TakeTheSameValues) {
  const std::map<std::string, std::string> ours = {
      {"--loss-scale-window", "integer"},   // a number there, which counts steps
      {"--rampup-batch-size", "integers"},  // texts there, which must be integers
      {"--moe-aux-loss-coeff", "numbers"},  // one there, several in later releases
      {"--moe-router-load-balancing-type", "strings"},
      {"--cuda-graph-scope", "strings"},
      {"--no-rope-freq", "integers"},  // a text there, of an integer or a list
      {"--window-attn-skip-freq", "integers"},
      {"--scaled-upper-triang-masked-softmax-fusion", "string"},  // any text there, which is true
  };
  // Of later releases.
  const std::set<std::string> later = {
      "dist_muon", "full_iteration", "mamba",      "minus_sqrt", "mlp",
      "moe",       "moe_preprocess", "moe_router", "muon"};
  for (const Row& row : all_) {
    const Option& option = at(row);
    if (option.kind == Option::Kind::refused && !option.takes_value()) continue;
    const auto other = ours.find(option.name());
    const std::string expected = other != ours.end() ? other->second : expected_form(row);
    EXPECT_PRED2(same_form, form_of(option), expected) << option.name();
    if (option.has_variable()) continue;  // which may know more choices
    for (const std::string& choice : option.check.choices)
      EXPECT_TRUE(row.choices.empty() || later.contains(choice) ||
                  std::ranges::find(row.choices, choice) != row.choices.end())
          << option.name() << ' ' << choice;
  }
}

TEST_F(MegatronFlags, HaveTheSameDefaults) {
  const std::map<std::string, std::string> ours = {
      {"--dataloader-type", "single"},        // there too, in the end
      {"--initial-loss-scale", ""},           // what it is there without --fp16
      {"--moe-expert-capacity-factor", "0"},  // as None there
      {"--moe-input-jitter-eps", "0"},
      {"--moe-router-group-topk", "0"},
      {"--moe-router-num-groups", "0"},
      {"--moe-router-topk-scaling-factor", "0"},
      {"--mtp-num-layers", "0"},
      {"--moe-shared-expert-intermediate-size", "0"},
      {"--moe-z-loss-coeff", "0"},
      {"--padded-vocab-size", "0"},
      {"--activation-func-clamp-value", "0"},
      {"--moe-latent-size", "0"},
      {"--yarn-beta-fast", "32"},  // what it is there in the end
      {"--yarn-beta-slow", "1"},
  };
  for (const Row& row : all_) {
    const Option& option = at(row);
    if (!option.has_variable() || !option.takes_value()) continue;
    const auto other = ours.find(option.name());
    const std::string standard = row.standard == "-" ? "" : row.standard;
    EXPECT_PRED2(same_value, option.default_text, other != ours.end() ? other->second : standard)
        << option.name();
  }
}

// The one value that a refused flag accepts is the one that stands when it is not given.
TEST_F(MegatronFlags, RefusedOnesAcceptTheirDefault) {
  for (const Row& row : all_) {
    Option option = at(row);
    if (option.kind != Option::Kind::refused || !option.takes_value()) continue;
    EXPECT_FALSE(option.check.expected().empty()) << option.name();
    EXPECT_TRUE(row.standard == "-" || option.assign({row.standard})) << option.name();
    EXPECT_FALSE(option.assign({"77"})) << option.name();
  }
}

TEST_F(MegatronFlags, HaveAReasonOfOneLine) {
  for (const Option& option : cl_.table().options) {
    if (option.has_variable()) continue;
    EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << option.name();
    EXPECT_EQ(option.help.find('\n'), option.help.npos) << option.name();
  }
}

}  // namespace
}  // namespace mt
