#include "infer/completion_flags.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "infer/grammar_cache.h"

namespace mt {

void CompletionFlags::add_to(CommandLine& cl) {
  CompletionOptions& o = options;
  cl.section("Completion");
  cl.option("--num-tokens,--num-tokens-to-generate", &o.num_tokens, "N", "tokens to add at most",
            at_least(0));
  cl.repeated("--stop", &o.stop, "TEXT", "end before this text; of several before the first");
  cl.option("--stop-tokens", &o.stop_tokens, "ID", "end before any of these tokens", at_least(0));
  cl.flag("--ignore-eod", &o.ignore_eod, "go on behind the tokens that end a text");
  cl.option("--min-tokens", &o.rules.min_tokens, "N",
            "tokens to add before one that ends a text may come", at_least(0));
  cl.option("--json-schema", &json_schema, "JSON|FILE",
            "only text that is JSON and fits this schema");
  cl.flag("--begin-document", &o.begin_document,
          "put the token that ends a document in front of each prompt, as in training");
  o.sampling.add_to(cl);
  cl.option("--min-p", &o.rules.min_p, "F",
            "only tokens with this part of the likeliest one's probability; 0: all", between(0, 1));
  cl.option("--repetition-penalty", &o.rules.repetition_penalty, "F",
            "divides positive logits of the tokens of the prompt and of what is made, and "
            "multiplies negative ones",
            between(0.01, 100));
  cl.option("--frequency-penalty", &o.rules.frequency_penalty, "F",
            "is taken from a token's logit for each time that it was made", between(-2, 2));
  cl.option("--presence-penalty", &o.rules.presence_penalty, "F",
            "is taken from the logit of each token that was made", between(-2, 2));
  cl.repeated("--logit-bias", &logit_bias, "ID=F",
              "what is added to a token's logit, from -100, which is never, to 100");
}

CompletionOptions CompletionFlags::of_model(const CompletionModel& model,
                                            GrammarCache& grammars) const {
  CompletionOptions result = options;
  if (std::ranges::count(result.stop, "") > 0) fail(Exit::usage, "--stop: expected a text");
  for (const std::string& text : logit_bias) {
    const std::size_t equal = std::min(text.find('='), text.size());
    const std::string_view number = std::string_view(text).substr(std::min(equal + 1, text.size()));
    double added = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), added);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size() ||
        !result.rules.set_bias(std::string_view(text).substr(0, equal), added))
      fail(Exit::usage, "--logit-bias ", text,
           ": expected a token's number, =, and a number from -100 to 100");
  }
  if (json_schema) {
    const bool is_json = json_schema->find('{') != json_schema->npos;
    try {
      result.grammar = grammars.of_schema(is_json ? *json_schema : read_file(*json_schema));
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      fail(Exit::bad_data, "--json-schema: ", error.what());
    }
  }
  result.check(model.vocab_size, "options");
  return result;
}

}  // namespace mt
