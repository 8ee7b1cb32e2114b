// Completion: one text that a model continues: its prompt, what is asked for, and what has come so
// far.  Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/logit_rules.h"
#include "infer/sampling.h"
#include "infer/token_grammar.h"
#include "tensor/dtype.h"
#include "text/tokenizer.h"

namespace mt {

struct ImageStates;  // infer/image_pass.h
struct ModelConfig;

struct CompletionOptions {
  std::int64_t num_tokens = 64;  // at most
  std::vector<std::string> stop =
      {};  // texts that end it; of several that are found the first counts
  std::vector<std::int64_t> stop_tokens = {};
  bool ignore_eod = false;
  bool begin_document = false;  // the prompt stands behind the token that ends a document
  bool has_own_tokens = false;  // the prompt has its special tokens, and none are put around it
  std::optional<std::int64_t> logprobs = {};  // alternatives of each token
  // Whether it is told how likely each token is, of logits that are divided by the temperature, as
  // training finds it (kernels/cross_entropy.h), in numbers of this type, which the model's sums
  // are of; where a GPU chooses tokens, as it finds it then (kernels/sample.h).  Which of the two
  // says it depends on those that are continued beside it, so that it may differ in its last bits.
  std::optional<DType> scored = {};
  SamplingOptions sampling = {};
  TopPDecay top_p_decay = {};

  LogitRules rules = {};
  std::shared_ptr<const TokenGrammar> grammar = {};  // which the text fits; null: any text

  // What requests ask for and no option does.
  std::int64_t adapter = 0;   // of the model's, counted from 1; 0: none
  bool include_stop = false;  // the text ends with its stop text
  bool show_special = true;   // the text has special tokens that are made (text/tokenizer.h)
  // Tokens behind which the text ends, with them: of the second kind two of them, or one of the
  // first.
  std::vector<std::int32_t> last_tokens = {};
  std::optional<std::int32_t> last_pair = {};
  std::shared_ptr<const ImageStates> images = {};  // that the prompt has places for

  // Exit::bad_config, beginning with `where`, for what a model of so many tokens does not have.
  void check(std::int64_t vocab_size, std::string_view where) const;
};

// What a completion knows of the model that continues it.
struct CompletionModel {
  const Tokenizer& tokenizer;
  std::int64_t vocab_size = 0;                // the tokens that the model knows
  std::vector<std::int32_t> end_tokens = {};  // that end a text; empty: the tokenizer's eod()
  // A model whose encoder reads prompts has a token behind which its decoder begins, and positions
  // for so many.
  std::optional<std::int32_t> start_token = {};
  std::int64_t decoder_positions = 0;
  const ModelConfig* llava = nullptr;  // of a model that reads images, too
};

class Completion {
 public:
  enum class Finish { none, length, stop };  // not yet; num_tokens are made; an end was met

  // The prompt's tokens are those that the tokenizer makes of it, with what it puts around a text;
  // where it makes none, BOS or what else begins a document.  Exit::bad_data for a token that the
  // model does not know.  Where an encoder reads the prompt, no more tokens are asked for than the
  // decoder has positions.
  Completion(const CompletionModel& model, std::string_view prompt,
             const CompletionOptions& options, std::uint32_t prompt_number, std::uint32_t sample);
  // In a prompt of a model that reads images, the token of an image stands for all that an image
  // takes, or is there as often: Exit::bad_data where it has places for more images than there are,
  // or fewer.
  //
  // The prompt is these tokens; at least one.
  Completion(const CompletionModel& model, std::vector<std::int32_t> prompt,
             const CompletionOptions& options, std::uint32_t prompt_number, std::uint32_t sample);

  // How the token that follows is chosen, and whether that or its log-probability needs logits on
  // the host; not where who chooses it can tell its score.
  const Choice& choice() const { return choice_; }
  // How the token behind that one is chosen, if the text goes on.
  Choice choice_behind() const { return following(choice_, options_.top_p_decay); }
  bool wants_logits(bool is_scored) const {
    return options_.logprobs.has_value() || (options_.scored && !is_scored) ||
           options_.rules.any() || match_ != nullptr;
  }
  // Takes the token that follows: the one chosen from the logits of all tokens, or, where none are
  // wanted, the one given, with its score.
  void choose(SharedLogits& logits);
  void choose(std::span<const double> logits) {
    SharedLogits own(logits);
    choose(own);
  }
  void take_token(std::int32_t token, double score);

  std::int64_t adapter() const { return options_.adapter; }
  // How many tokens of the prompt were in the cache already when it was first read.
  std::int64_t shared() const { return shared_; }
  void set_shared(std::int64_t tokens) { shared_ = tokens; }
  // How many tokens it may still get.
  std::int64_t tokens_left() const { return options_.num_tokens - std::ssize(made()); }
  // What the layers with a cache see: the prompt, or the token behind which a decoder begins, and
  // what is made.
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::span<const std::int32_t> made() const { return std::span(ids_).subspan(before_); }
  // The images that stand in places of ids(), null where there are none; and for each of the ids
  // the row of their hidden states that stands there, or -1.
  const ImageStates* images() const { return options_.images.get(); }
  std::span<const std::int32_t> image_rows() const { return image_rows_; }
  const std::vector<std::int32_t>& read() const { return read_; }  // the prompt, for an encoder
  std::span<const std::int32_t> prompt() const {
    return read_.empty() ? std::span(ids_).first(before_) : std::span(read_);
  }
  // How likely each of made() was, and behind them end_token(), if there is one.
  const std::vector<LogProbs>& log_probs() const { return log_probs_; }
  // Likewise, where they are scored.
  const std::vector<double>& scores() const { return scores_; }
  // CachedPass::choices() of the text, where it is seen from its beginning on, as it ended.
  const std::vector<std::int32_t>& experts() const { return experts_; }
  void set_experts(std::vector<std::int32_t> experts) { experts_ = std::move(experts); }
  // The token that ended the text, which is none of made().
  std::optional<std::int32_t> end_token() const { return end_token_; }
  Finish finish() const { return finish_; }

  // What is made, without a stop string and what follows it.  A character whose bytes come from
  // several tokens appears with the last of them.
  const std::string& text() const { return text_; }
  // Takes the part of the text that is certain by now and was not taken before: no beginning of a
  // stop string is in it that may yet become whole.
  std::string_view take();

 private:
  Completion(const CompletionModel& model, const CompletionOptions& options, TokenPlace place);
  void begin();
  void place_images();
  void show_prompt();
  void forbid_unfit(std::span<double> logits);
  void take_token(std::int32_t token, std::span<const double> logits, double score);
  bool is_last(std::int32_t token) const;
  bool cut_at_stop();
  void drop_prompt(std::size_t from);
  void end(Finish finish);

  const CompletionModel& model_;
  CompletionOptions options_;
  std::vector<std::int32_t> ends_;  // tokens that end the text and are none of it
  Choice choice_;
  std::vector<std::int32_t> ids_, read_, image_rows_;
  std::size_t before_ = 0;    // of the ids, those in front of what is made
  std::size_t in_front_ = 0;  // of the prompt's tokens, those that its text has not
  std::int64_t shared_ = 0;
  std::optional<std::int32_t> end_token_ = {};
  std::vector<LogProbs> log_probs_;
  std::vector<double> scores_;
  std::vector<std::int32_t> experts_;
  std::unique_ptr<GrammarMatch> match_;  // of what is made; null without a grammar
  std::unique_ptr<StreamDecoder> decoder_;
  std::size_t of_prompt_ = 0;  // bytes of the prompt's text that the decoder has not shown yet
  std::string text_;
  std::size_t taken_ = 0,
              searched_ = 0;  // bytes of the text; no stop text begins before searched_
  Finish finish_ = Finish::none;
};

}  // namespace mt
