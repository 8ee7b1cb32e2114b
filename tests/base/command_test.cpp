// The option table: what the parser accepts, and the exact lines of mistakes.
#include "base/command.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/base/sample_options.h"

namespace mt {

// --- What is accepted. ---

TEST(CommandLine, Spellings) {
  EXPECT_EQ(parsed({"--micro-batch-size", "4"}).batch, 4);
  EXPECT_EQ(parsed({"--micro-batch-size=4"}).batch, 4);
  EXPECT_EQ(parsed({"-j", "4"}).workers, 4u);
  EXPECT_EQ(parsed({"-j4"}).workers, 4u);
  EXPECT_EQ(parsed({"-vj", "4"}).workers, 4u);
  EXPECT_EQ(parsed({"-qvj4"}).workers, 4u);
  EXPECT_EQ(parsed({"--from", "x"}).load, "x");
  EXPECT_EQ(parsed({"--load", "-"}).load, "-");
  EXPECT_EQ(parsed({"--load=--seed"}).load, "--seed");
  EXPECT_EQ(parsed({"--load=a=b\nc"}).load, "a=b\nc");
  EXPECT_EQ(parsed({"--load="}).load, "");
  EXPECT_EQ(parsed({"--load", ""}).load, "");
  EXPECT_EQ(parsed({"--micro-batch-size", "4", "--micro-batch-size", "5"}).batch, 5);
  EXPECT_EQ(parsed({"--load", std::string(1 << 20, 'x')}).load.size(), 1u << 20);
}

TEST(CommandLine, Numbers) {
  EXPECT_EQ(parsed({"--seed", "-1"}).seed, -1);
  EXPECT_EQ(parsed({"--seed=-9223372036854775808"}).seed, INT64_MIN);
  EXPECT_EQ(parsed({"-j", "18446744073709551615"}).workers, UINT64_MAX);
  EXPECT_EQ(parsed({"--lr", "3e-4"}).lr, 3e-4);
  EXPECT_EQ(parsed({"--lr", ".5"}).lr, 0.5);
  EXPECT_EQ(parsed({"--lr-decay-iters", "7"}).decay, 7);
  EXPECT_FALSE(parsed({}).decay.has_value());
  EXPECT_EQ(parsed({"--tag", "a b"}).tag, "a b");
}

TEST(CommandLine, Lists) {
  EXPECT_EQ(parsed({}).keys, Arguments{"text"});
  EXPECT_EQ(parsed({"--json-keys", "a", "b c", "--bf16"}).keys, (Arguments{"a", "b c"}));
  EXPECT_EQ(parsed({"--json-keys", "a", "--bf16", "--json-keys=b,c"}).keys,
            (Arguments{"a", "b,c"}));
  EXPECT_EQ(parsed({"--sizes", "1", "-2", "3"}).sizes, (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(parsed({"--sizes", "([0]*2+[1])*2"}).sizes,
            (std::vector<std::int64_t>{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(parsed({"--sizes", "[1, 2]", "3"}).sizes, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(parsed({"--betas", "0.5", "1"}).betas, (std::vector<double>{0.5, 1}));
}

TEST(CommandLine, ListsWhoseValuesAreGivenOneByOne) {
  std::vector<std::string> images, prompts;
  CommandLine cl("mt-x", {"--image", "a", "--image=b", "c", "--image", "d", "e"});
  cl.positionals("PROMPT", &prompts, "texts", 0);
  cl.repeated("--image", &images, "FILE", "images");
  cl.parse();
  EXPECT_EQ(images, (Arguments{"a", "b", "d"}));
  EXPECT_EQ(prompts, (Arguments{"c", "e"}));
  const auto from_environment = [&](const char* value) {
    const Environment environment(Environment::Variables{{"MT_IMAGE", value}});
    CommandLine none("mt-x", {});
    none.repeated("--image", &images, "FILE", "images");
    none.parse();
    return images;
  };
  EXPECT_EQ(from_environment("a b.png"), Arguments{"a b.png"});
  EXPECT_EQ(from_environment("[a, b c]"), (Arguments{"a", "b c"}));
}

TEST(CommandLine, Flags) {
  EXPECT_TRUE(parsed({"--bf16"}).bf16);
  EXPECT_FALSE(parsed({"--bf16=false"}).bf16);
  EXPECT_FALSE(parsed({"--no-load-optim"}).optim);
  EXPECT_TRUE(parsed({"--no-fusion", "--fusion"}).fused);
  EXPECT_FALSE(parsed({"--fusion", "--no-fusion"}).fused);
}

TEST(CommandLine, OptionsWithoutAnEffect) {
  EXPECT_EQ(mistake({"--use-mcore-models", "--num-workers", "-3", "--ckpt-format=dist"}), "");
  EXPECT_EQ(mistake({"--num-experts=0", "--cp-comm-type", "p2p", "p2p", "--seed", "1"}), "");
}

TEST(CommandLine, Positionals) {
  const auto split = [](const Arguments& arguments) {
    CommandLine cl("mt-x", arguments);
    std::string input, output = "-";
    std::vector<std::string> rest;
    bool flag = false;
    cl.flag("--flag", &flag, "a flag");
    cl.positional("INPUT", &input, "read this");
    cl.optional_positional("OUTPUT", &output, "write this");
    cl.positionals("MORE", &rest, "and these", 0);
    cl.parse();
    std::string all = input + "|" + output + "|";
    for (const std::string& one : rest) all += one + ",";
    return all;
  };
  EXPECT_EQ(split({"a"}), "a|-|");
  EXPECT_EQ(split({"a", "--flag", "b"}), "a|b|");
  EXPECT_EQ(split({"a", "b", "c", "-"}), "a|b|c,-,");
  EXPECT_EQ(split({"--flag", "--", "--a", "-1", "--"}), "--a|-1|--,");
  EXPECT_EQ(error_of([&] { split({"--flag"}); }),
            "64 INPUT: 0 given, expected 1 (see mt-x --help)");
  EXPECT_EQ(error_of([&] { split({}); }), "64 ");  // what to type is on stderr
}

TEST(CommandLine, Verbs) {
  const auto ask = [](const Arguments& arguments) {
    CommandLine cl("mt-x", arguments);
    const std::string verb = cl.verb({{"cat", "print"}, {"check", "test"}});
    cl.parse();
    return verb;
  };
  EXPECT_EQ(ask({}), "");
  EXPECT_EQ(ask({"cat", "-q"}), "cat");
  EXPECT_EQ(error_of([&] { ask({"chekc"}); }),
            "64 chekc: unexpected argument; did you mean check?");
  EXPECT_EQ(error_of([&] {
              ask({"cat", "x"});
            }),
            "64 x: unexpected argument (see mt-x cat --help)");
}

// As in Python, whose argparse Megatron-LM's scripts are written for.
TEST(CommandLine, DigitsMayBeGrouped) {
  std::int64_t samples = 0;
  double rate = 0;
  CommandLine cl("mt-x", {"--train-samples", "220_000_000", "--lr=1_0.2_5e-1_0"});
  cl.option("--train-samples", &samples, "N", "samples");
  cl.option("--lr", &rate, "F", "rate");
  cl.parse();
  EXPECT_EQ(samples, 220'000'000);
  EXPECT_EQ(rate, 10.25e-10);
}

// --- Mistakes, by their lines. ---

struct Mistake {
  Arguments arguments;
  const char* line;
};

TEST(CommandLine, Mistakes) {
  const Mistake mistakes[] = {
      {{"--micro-batchsize", "4"},
       "--micro-batchsize: no such option; did you mean --micro-batch-size?"},
      {{"--micro_batch_size=4"},
       "--micro_batch_size: no such option; did you mean --micro-batch-size?"},
      {{"--micro-batch", "4"}, "--micro-batch: no such option; did you mean --micro-batch-size?"},
      {{"--bf61"}, "--bf61: no such option; did you mean --bf16?"},
      {{"--learning-rate", "1"}, "--learning-rate: no such option; did you mean --lr?"},
      {{"--max-tokens", "1"}, "--max-tokens: no such option (see mt-x --help)"},
      {{"--unheard-of"}, "--unheard-of: no such option (see mt-x --help)"},
      {{"--"
        "odd'one=1"},
       "--odd'one: no such option (see mt-x --help)"},
      {{"-x"}, "-x: no such option (see mt-x --help)"},
      {{"-vx"}, "-x: no such option (see mt-x --help)"},
      {{"-1"}, "-1: no such option (see mt-x --help)"},
      {{"-1.5"}, "-1.5: no such option (see mt-x --help)"},
      {{"word"}, "word: unexpected argument (see mt-x --help)"},
      {{""}, "\"\": unexpected argument (see mt-x --help)"},
      {{"--micro-batch-size", "12abc"},
       "--micro-batch-size 12abc: expected an integer, at least 1"},
      {{"--micro-batch-size", "0"}, "--micro-batch-size 0: expected an integer, at least 1"},
      {{"--micro-batch-size="}, "--micro-batch-size \"\": expected an integer, at least 1"},
      {{"--micro-batch-size", " 4"}, "--micro-batch-size  4: expected an integer, at least 1"},
      {{"--micro-batch-size", "+4"}, "--micro-batch-size +4: expected an integer, at least 1"},
      {{"--micro-batch-size", "4.0"}, "--micro-batch-size 4.0: expected an integer, at least 1"},
      {{"--micro-batch-size", "0x4"}, "--micro-batch-size 0x4: expected an integer, at least 1"},
      {{"--micro-batch-size", "4_"}, "--micro-batch-size 4_: expected an integer, at least 1"},
      {{"--micro-batch-size", "4__0"}, "--micro-batch-size 4__0: expected an integer, at least 1"},
      {{"--micro-batch-size", "_4"}, "--micro-batch-size _4: expected an integer, at least 1"},
      {{"--micro-batch-size", "2147483648"},
       "--micro-batch-size 2147483648: expected an integer, at least 1, at most 2147483647"},
      {{"-j", "-1"}, "-j -1: expected an integer of 0 or more"},
      {{"--workers=-1"}, "--workers -1: expected an integer of 0 or more"},
      {{"-j"}, "-j: no value given; expected an integer of 0 or more"},
      {{"--lr", "0"}, "--lr 0: expected a number, greater than 0"},
      {{"--lr", "nan"}, "--lr nan: expected a number, greater than 0"},
      {{"--lr", "inf"}, "--lr inf: expected a number, greater than 0"},
      {{"--lr", "1e999"}, "--lr 1e999: expected a number, greater than 0, at most 1.79769e+308"},
      {{"--betas", "0.9", "1.5"}, "--betas 0.9 1.5: expected a number, from 0 to 1"},
      {{"--sizes", "[1,"}, "--sizes [1,: expected an integer"},
      {{"--sizes", "[1]*3+2"}, "--sizes [1]*3+2: expected an integer"},
      {{"--saver", "onnx"}, "--saver onnx: expected core, hf or gguf"},
      {{"--bf16=maybe"}, "--bf16=maybe: expected true or false"},
      {{"--verbose=2"}, "--verbose=2: takes no value; repeat it instead"},
      {{"--seed"}, "--seed: no value given; expected an integer"},
      {{"--seed", "--bf16"}, "--seed: no value given; expected an integer"},
      {{"--seed", "--", "4"}, "--seed: no value given; expected an integer"},
      {{"--json-keys", "--bf16"}, "--json-keys: no value given; expected KEY"},
      {{"-vj"}, "-j: no value given"},
      {{"--use-legacy-models"}, "--use-legacy-models: not supported: they are gone"},
      {{"--use-legacy-models", "-1"}, "--use-legacy-models: not supported: they are gone"},
      {{"--use-legacy-models=3"}, "--use-legacy-models: not supported: they are gone"},
      {{"--use-mcore-models=false"}, "--use-mcore-models=false: always on: there are no others"},
      {{"--num-workers", "x"}, "--num-workers x: expected an integer; any number will do"},
      {{"--num-workers"}, "--num-workers: no value given; expected an integer"},
      {{"--ckpt-format", "zarr"}, "--ckpt-format zarr: expected dist or auto; there is one format"},
      {{"--num-experts", "8"}, "--num-experts 8: not supported: there are none"},
      {{"--num-experts", "-1"}, "--num-experts -1: not supported: there are none"},
      {{"--cp-comm-type", "p2p", "a2a"},
       "--cp-comm-type p2p a2a: not supported: it is not parallel"},
      {{"--color", "red"}, "--color red: expected auto, always or never"},
  };
  for (const Mistake& one : mistakes) EXPECT_EQ(mistake(one.arguments), concat("64 ", one.line));
}

TEST(CommandLine, RequiredOptions) {
  const auto parse = [](const Arguments& arguments) {
    Sample sample;
    CommandLine cl("mt-x", arguments);
    sample.add_to(cl);
    cl.required("--load");
    cl.parse();
  };
  EXPECT_EQ(error_of([&] { parse({"--"}); }), "64 --load: not given, but required; expected PATH");
  EXPECT_EQ(error_of([&] { parse({"--from", "x"}); }), "");
}

TEST(CommandLine, DeclarationsThatClashAreOurBug) {
  CommandLine cl("mt-x", {});
  int n = 0;
  cl.option("--number,-v", &n, "N", "clashes with --verbose");
  EXPECT_THROW(cl.parse(), std::logic_error);
  EXPECT_THROW(cl.given("--nothing"), std::logic_error);
}

TEST(CommandLine, OptionsAsJson) {
  Sample sample;
  CommandLine cl("mt-x", {"--seed", "3", "--use-mcore-models", "--num-experts", "0", "--json-keys",
                          "a", "b", "--no-load-optim", "--cp-comm-type", "p2p"});
  sample.add_to(cl);
  cl.parse();
  JsonWriter json;
  cl.write_options(json);
  EXPECT_EQ(json.text(), R"({"micro-batch-size":{"value":1,"origin":"default"},)"
                         R"("workers":{"value":0,"origin":"default"},)"
                         R"("seed":{"value":3,"origin":"command line"},)"
                         R"("lr":{"value":0.0001,"origin":"default"},)"
                         R"("betas":{"value":[0.9,0.95],"origin":"default"},)"
                         R"("sizes":{"value":[],"origin":"default"},)"
                         R"("lr-decay-iters":{"value":null,"origin":"default"},)"
                         R"("bf16":{"value":false,"origin":"default"},)"
                         R"("fusion":{"value":true,"origin":"default"},)"
                         R"("no-fusion":{"value":false,"origin":"default"},)"
                         R"("load":{"value":"","origin":"default"},)"
                         R"("saver":{"value":"core","origin":"default"},)"
                         R"("json-keys":{"value":["a","b"],"origin":"command line"},)"
                         R"("tag":{"value":null,"origin":"default"},)"
                         R"("no-load-optim":{"value":true,"origin":"command line"},)"
                         R"("use-mcore-models":{"value":true,"origin":"always on"},)"
                         R"("num-experts":{"value":0,"origin":"command line"},)"
                         R"("cp-comm-type":{"value":["p2p"],"origin":"command line"}})");
}

TEST(CommandLine, LogFollowsTheOptions) {
  const auto settings = [](const Arguments& arguments) {
    CommandLine cl("mt-x", arguments);
    cl.parse();
    return cl.log().settings();
  };
  EXPECT_EQ(settings({}).level, Log::Level::normal);
  EXPECT_EQ(settings({"-q"}).level, Log::Level::quiet);
  EXPECT_EQ(settings({"-v"}).level, Log::Level::verbose);
  EXPECT_EQ(settings({"-v", "--verbose"}).level, Log::Level::debug);
  EXPECT_EQ(settings({"-vv"}).level, Log::Level::debug);
  EXPECT_EQ(settings({"--log-format", "json"}).format, Log::Format::json);
  EXPECT_EQ(settings({"--progress=none"}).progress, Log::Show::none);
  EXPECT_EQ(settings({}).program, "mt-x");
  EXPECT_TRUE(settings({"--color", "always"}).color);
  EXPECT_FALSE(settings({"--color", "never"}).color);
}

}  // namespace mt
