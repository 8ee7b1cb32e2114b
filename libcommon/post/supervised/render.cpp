// The verb render: which tokens of each sample sft would learn, before a device is touched.
//   sample 1: chat.jsonl:1, 27 tokens, 5 learnt
//     position       id  mask  text
//            0     3856     0  "Be"
// or, with --json, one object a sample:
//   {"schema":"mt-render/1","sample":1,"file":"chat.jsonl","line":1,"ids":[…],"texts":[…],
//    "positions":[…],"mask":[…],"weights":[…]}
#include <cstdio>
#include <iostream>

#include "base/command.h"
#include "base/json_object.h"
#include "data/corpus/bad_lines.h"
#include "post/data/read_examples.h"
#include "post/supervised/supervised_finetuning.h"
#include "post/verbs.h"

namespace mt {
namespace {

// The first token follows nothing that it could be learnt from.
bool is_learnt(const Example& example, std::size_t i) { return i > 0 && example.learnt[i]; }

// A target's begin anew behind those of its source.
std::size_t position(const Example& example, std::size_t i) {
  const auto source = static_cast<std::size_t>(example.source);
  return i < source ? i : i - source;
}

void write_text(std::ostream& out, std::int64_t number, const Example& example,
                const ExampleMaker& maker, bool color) {
  out << "sample " << number << ": " << example.file << ":" << example.line << ", "
      << example.size() << " tokens, " << example.targets() << " learnt\n"
      << "  position       id  mask  text\n";
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    const bool learnt = is_learnt(example, i);
    char row[64];
    std::snprintf(row, sizeof row, "  %8zu %8d %5d  ", position(example, i), example.ids[i],
                  learnt ? 1 : 0);
    out << (color ? (learnt ? "\x1b[32m" : "\x1b[2m") : "") << row
        << json_quoted(maker.text_of(example.ids[i])) << (color ? "\x1b[0m" : "") << "\n";
  }
}

std::string json_of(std::int64_t number, const Example& example, const ExampleMaker& maker) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-render/1").member("sample", number);
  json.member("file", example.file).member("line", example.line);
  const auto array = [&](const char* name, const auto& value_of) {
    json.key(name).begin_array();
    for (std::size_t i = 0; i < example.ids.size(); ++i) json.value(value_of(i));
    json.end_array();
  };
  array("ids", [&](std::size_t i) { return example.ids[i]; });
  array("texts", [&](std::size_t i) { return maker.text_of(example.ids[i]); });
  array("positions", [&](std::size_t i) { return position(example, i); });
  array("mask", [&](std::size_t i) { return is_learnt(example, i) ? 1 : 0; });
  array("weights", [&](std::size_t i) { return is_learnt(example, i) ? 1.0 : 0.0; });
  return json.end_object().text();
}

}  // namespace

void finetune_render(CommandLine& cl) {
  SftOptions options;
  std::int64_t head = 0;
  cl.describe("Print which tokens of each sample are learnt.", "Takes the options of sft.");
  cl.first_run({"--load", "--train-data", "--seq-length", "--head", "--json"});
  cl.section("Data");
  cl.option("--head", &head, "N", "only the first N samples", at_least(1));
  options.add_to(cl);
  options.parse(cl, false);
  options.choose_type();
  options.data.check(false);
  FinetuneOptions::Words words = options.open_tokenizer();
  const ExampleMaker maker(*words.tokenizer, options.examples, std::move(words.chat_files),
                           std::move(words.place));
  BadLines bad(options.data.on_error, true, options.data.train, cl.log());
  const ExampleSet set = read_examples({.files = options.data.train,
                                        .longest = options.longest_text(),
                                        .longest_target = options.decoder_seq_length.value_or(0),
                                        .overlong = options.overlong,
                                        .most = head,
                                        .threads = options.run.ranks.threads},
                                       maker, bad, cl.log());
  bad.commit();
  std::int64_t number = 0;
  for (const Example& example : set.train) {
    ++number;
    if (options.run.report.json)
      std::cout << json_of(number, example, maker) << "\n";
    else
      write_text(std::cout, number, example, maker, cl.color(1));
  }
}

}  // namespace mt
