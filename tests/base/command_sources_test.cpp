// Where the values of options come from: command line, environment, config file, checkpoint.
#include <gtest/gtest.h>

#include "base/command.h"
#include "base/file.h"
#include "base/option_config.h"
#include "base/option_environment.h"
#include "tests/base/sample_options.h"

namespace mt {

TEST(Sources, Precedence) {
  const Scratch scratch;
  const std::string config = scratch.path("run.yaml");
  write_file_atomically(config, "seed: 1\nlr: 1\nmicro-batch-size: 7\n", false);
  const Environment environment({{"MT_SEED", "2"}, {"MT_LR", "2"}, {"MT_SAVER", ""}});
  Sample sample;
  CommandLine cl("mt-x", {"--seed", "3", "--config", config});
  sample.add_to(cl);
  cl.parse();
  EXPECT_EQ(sample.seed, 3);
  EXPECT_EQ(sample.lr, 2);
  EXPECT_EQ(sample.batch, 7);
  EXPECT_EQ(sample.saver, "core");
  EXPECT_EQ(cl.origin("--seed"), "command line");
  EXPECT_EQ(cl.origin("--lr"), "environment MT_LR");
  EXPECT_EQ(cl.origin("--micro-batch-size"), "config " + config + ":3");
  EXPECT_EQ(cl.origin("--saver"), "default");
  EXPECT_TRUE(cl.given("--micro-batch-size"));
  EXPECT_FALSE(cl.given("--saver"));
}

TEST(Sources, AHigherSourceReplacesAList) {
  const Scratch scratch;
  const std::string config = scratch.path("run.yaml");
  write_file_atomically(config, "json-keys: [a, b]\nfusion: false\n", false);
  const Environment environment(Environment::Variables{{"MT_CONFIG", config}});
  EXPECT_EQ(parsed({}).keys, (Arguments{"a", "b"}));
  EXPECT_EQ(parsed({"--json-keys", "c"}).keys, Arguments{"c"});
  EXPECT_FALSE(parsed({}).fused);
  EXPECT_TRUE(parsed({"--fusion"}).fused);
  const Environment more({{"MT_JSON_KEYS", "d e"}, {"MT_SIZES", "[1, 2]"}, {"MT_NO_FUSION", "0"}});
  EXPECT_EQ(parsed({}).keys, (Arguments{"d", "e"}));
  EXPECT_EQ(parsed({}).sizes, (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(parsed({}).fused);
}

// What is set, and then said of it.
static std::vector<std::string> said_of(const Environment::Variables& variables) {
  const Environment environment(variables);
  Sample sample;
  CommandLine cl("mt-x", {});
  sample.add_to(cl);
  cl.parse();  // names what is unknown, on stderr, and forgets it
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  return unknown_variables(cl.table());
}

TEST(Sources, VariablesThatNoProgramReads) {
  using Lines = std::vector<std::string>;
  const std::string nobody = ": is set, but is no option of any program";
  EXPECT_EQ(said_of({{"MT_MICRO_BATCHSIZE", "3"}}),
            Lines{"MT_MICRO_BATCHSIZE" + nobody + "; did you mean MT_MICRO_BATCH_SIZE?"});
  EXPECT_EQ(said_of({{"MT_FROM", "x"}}),  // another name of --load
            Lines{"MT_FROM" + nobody + "; did you mean MT_LOAD?"});
  EXPECT_EQ(said_of({{"MT_QQQQ", "3"}}), Lines{"MT_QQQQ" + nobody});
  EXPECT_EQ(said_of({{"MT_QQQQ", ""}}), Lines{});
  EXPECT_EQ(said_of({{"MT_SEED", "3"}, {"MT_HELP", "json"}}), Lines{});
  EXPECT_EQ(said_of({{"MT_HIDDEN_SIZE", "3"}}), Lines{});  // mt-pretrain's
  EXPECT_EQ(said_of({{"MT_KERNELS", "generic"}, {"MT_CPU_ISA", "base"}}), Lines{});  // of none
}

TEST(Sources, AVariableIsNamedOnce) {
  const Environment environment(Environment::Variables{{"MT_SEEDS", "3"}});
  EXPECT_EQ(unknown_variables({}).size(), 1U);
  EXPECT_EQ(unknown_variables({}).size(), 0U);
}

TEST(Sources, MistakesInTheEnvironment) {
  const auto with = [](const char* name, const char* value) {
    const Environment environment(Environment::Variables{{name, value}});
    return mistake({});
  };
  EXPECT_EQ(with("MT_SEED", "x"), "64 MT_SEED=x: expected an integer");
  EXPECT_EQ(with("MT_BF16", "yes"), "64 MT_BF16=yes: expected true or false");
  EXPECT_EQ(with("MT_USE_LEGACY_MODELS", "1"),
            "64 MT_USE_LEGACY_MODELS=1: not supported: they are gone");
  EXPECT_EQ(with("MT_CONFIG", "/nowhere/x"),
            "66 /nowhere/x: cannot open: No such file or directory");
  EXPECT_EQ(with("MT_VERBOSE", "2"), "");
}

struct BadConfig {
  const char* content;
  const char* line;  // after the file's name
};

TEST(Sources, MistakesInAConfigFile) {
  const BadConfig cases[] = {
      {"# x\n\nmicro-batchsize: 4\n",
       "3: micro-batchsize: no such option; did you mean micro-batch-size?"},
      {"micro_batch_size: 4\n",
       "1: micro_batch_size: no such option; did you mean micro-batch-size?"},
      {"unheard-of: 4\n", "1: unheard-of: no such option"},
      {"seed: x\n", "1: seed: x: expected an integer"},
      {"seed: [1]\n", "1: seed: a list; expected an integer"},
      {"seed: 1\r\nseed: 2\r\n", "2: seed: given in line 1 already"},
      {"load: a\nfrom: b\n", "2: from: given as load in line 1 already"},
      {"--seed: 1\n", "1: --seed: no such option; did you mean seed?"},
      {"learning-rate: 1\n", "1: learning-rate: no such option; did you mean lr?"},
      {"seed 4\n", "1: expected `option: value` at the start of a line, not seed 4"},
      {"seed:4\n", "1: expected `option: value` at the start of a line, not seed:4"},
      {"  seed: 4\n", "1: expected `option: value` at the start of a line, not   seed: 4"},
      {"json-keys:\n- a\n", "1: json-keys: no value; an empty text is written \"\", a list [A, B]"},
      {"load: # x\n", "1: load: no value; an empty text is written \"\", a list [A, B]"},
      {"load: null\n", "1: load: null is no value; leave the line out instead"},
      {"load: *x\n", "1: load: *x: put this text in quotes"},
      {"load: a: b\n", "1: load: a: b: put this text in quotes"},
      {"load: \"a\n", "1: load: a text without its closing quote"},
      {"load: 'a' b\n", "1: load: more after the value: b"},
      {"load: \"\\x\"\n", "1: load: an unknown escape; \\\\, \\\", \\n and \\t are known"},
      {"json-keys: [a, b\n", "1: json-keys: a list without its closing bracket"},
      {"json-keys: [a, , b]\n",
       "1: json-keys: no value; an empty text is written \"\", a list [A, B]"},
      {"bf16: yes\n", "1: bf16: yes: expected true or false"},
      {"use-mcore-models: false\n", "1: use-mcore-models: false: always on: there are no others"},
      {"use-legacy-models: true\n", "1: use-legacy-models: true: not supported: they are gone"},
      {"config: x\n", "1: config: not an option of a config file"},
      {"help: true\n", "1: help: not an option of a config file"},
  };
  const Scratch scratch;
  const std::string path = scratch.path("run.yaml");
  for (const BadConfig& one : cases) {
    write_file_atomically(path, one.content, true);
    EXPECT_EQ(mistake({"--config", path}), concat("78 ", path, ":", one.line));
  }
}

TEST(Sources, AConfigFileMayBeginWithAByteOrderMark) {
  const Scratch scratch;
  const std::string path = scratch.path("run.yaml");
  write_file_atomically(path, "\xEF\xBB\xBFseed: 7\r\n", false);
  EXPECT_EQ(parsed({"--config", path}).seed, 7);
  using std::string_view_literals::operator""sv;
  write_file_atomically(path, std::string("\xFF\xFEs\0e\0"sv), true);
  EXPECT_EQ(mistake({"--config", path}),
            concat("65 ", path,
                   ": is UTF-16, by its byte order mark; expected UTF-8, which iconv -f UTF-16 -t "
                   "UTF-8 makes of it"));
}

TEST(Sources, ConfigValues) {
  const Scratch scratch;
  const std::string path = scratch.path("run.yaml");
  write_file_atomically(path,
                        "--- \n# comment\n"
                        "load: /a b/c#d  # comment\r\n"
                        "saver:   'hf'\n"
                        "tag: \"it's # \\\"so\\\"\\n\"\n"
                        "json-keys: [ plain, 'it''s', \"a, b\" ]  # list\n"
                        "sizes: []\n"
                        "betas: 0.5\n"
                        "bf16: true\n"
                        "use-mcore-models: true\n"
                        "lr: 1e-3",
                        false);
  const Sample sample = parsed({"--config", path});
  EXPECT_EQ(sample.load, "/a b/c#d");
  EXPECT_EQ(sample.saver, "hf");
  EXPECT_EQ(sample.tag, "it's # \"so\"\n");
  EXPECT_EQ(sample.keys, (Arguments{"plain", "it's", "a, b"}));
  EXPECT_TRUE(sample.sizes.empty());
  EXPECT_EQ(sample.betas, std::vector<double>{0.5});
  EXPECT_TRUE(sample.bf16);
  EXPECT_EQ(sample.lr, 1e-3);
}

TEST(Sources, ConfigValuesReadBackEqual) {
  for (const std::string text : {"plain", "a b", "", "-", "null", "it's", "\"q\"", "a: b", "# x",
                                 "\\n", "line\nline\ttab", "[x]", "\xC3\xA9", "969,30,1"})
    EXPECT_EQ(parse_config_value(config_value(text), "here").values, Arguments{text});
}

TEST(Sources, FallbackFromACheckpoint) {
  Sample sample;
  CommandLine cl("mt-x", {"--seed", "3"});
  sample.add_to(cl);
  cl.required("--lr-decay-iters");
  cl.before_print([&] {
    cl.fallback("--seed", {"4"}, "checkpoint c");
    cl.fallback("--lr-decay-iters", {"5"}, "checkpoint c");
    cl.fallback("--json-keys", {"a", "b"}, "checkpoint c");
    EXPECT_EQ(error_of([&] { cl.fallback("--lr", {"x"}, "checkpoint c"); }),
              "78 checkpoint c: lr: x: expected a number, greater than 0");
  });
  cl.parse();
  EXPECT_EQ(sample.seed, 3);
  EXPECT_EQ(sample.decay, 5);
  EXPECT_EQ(sample.keys, (Arguments{"a", "b"}));
  EXPECT_FALSE(cl.given("--json-keys"));
  EXPECT_EQ(cl.origin("--json-keys"), "checkpoint c");
}

}  // namespace mt
