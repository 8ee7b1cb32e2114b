#include "eval/tasks/eval_task.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/chat/chat_python.h"
#include "text/yaml.h"

namespace mt {

// --- Fields --------------------------------------------------------------------------------------

EvalField::EvalField(ChatValue written, std::string name)
    : written_(std::move(written)), name_(std::move(name)) {
  const std::string* const text = written_.text();
  if (text != nullptr && text->find('{') != text->npos)
    template_.emplace(*text, name_, ChatDialect::tasks);
}

ChatValue EvalField::of(const ChatValue& doc) const {
  if (const std::string* const text = written_.text())
    if (const ChatValue* const field = doc.find(*text)) return *field;
  return template_ ? template_->value({.kwargs = doc}) : written_;
}

std::string EvalField::text_of(const ChatValue& doc) const {
  const ChatValue value = of(doc);
  return value.is_none() && !is_given() ? std::string() : python_text(value);
}

// --- The file ------------------------------------------------------------------------------------

namespace {

// Keys that say nothing about how a model is measured on the documents that are given.
constexpr auto kDescriptive = std::to_array<std::string_view>(
    {"tag", "group", "dataset_path", "dataset_name", "dataset_kwargs", "training_split",
     "validation_split", "test_split", "fewshot_split", "should_decontaminate",
     "doc_to_decontamination_query", "metadata", "task_alias"});

struct KnownMetric {
  std::string_view name, aggregation;
  bool higher_is_better;
  EvalKind kinds[2];
};
using enum EvalKind;
constexpr auto kMetrics = std::to_array<KnownMetric>({
    {"acc", "mean", true, {loglikelihood, multiple_choice}},
    {"acc_norm", "mean", true, {multiple_choice, multiple_choice}},
    {"acc_bytes", "mean", true, {multiple_choice, multiple_choice}},
    {"acc_mutual_info", "mean", true, {multiple_choice, multiple_choice}},
    {"exact_match", "mean", true, {multiple_choice, generate}},
    {"vqa_accuracy", "mean", true, {generate, generate}},
    {"relaxed_accuracy", "mean", true, {generate, generate}},
    {"anls", "mean", true, {generate, generate}},
    {"f1", "f1", true, {multiple_choice, multiple_choice}},
    {"mcc", "matthews_corrcoef", true, {multiple_choice, multiple_choice}},
    {"brier_score", "brier_score", false, {multiple_choice, multiple_choice}},
    {"perplexity", "perplexity", false, {loglikelihood, loglikelihood}},
    {"word_perplexity", "weighted_perplexity", false, {rolling, rolling}},
    {"byte_perplexity", "weighted_perplexity", false, {rolling, rolling}},
    {"bits_per_byte", "bits_per_byte", false, {rolling, rolling}},
});

constexpr std::string_view kKindNames[] = {"loglikelihood", "multiple_choice",
                                           "loglikelihood_rolling", "generate_until"};

class TaskReader {
 public:
  TaskReader(std::string_view yaml, const std::string& path)
      : path_(path), all_(parse_yaml(yaml, path)) {
    if (!all_.is_dict()) refuse("expected keys and values");
    task_.written = all_;
  }

  EvalTask read() {
    task_.name = text("task", "");
    if (task_.name.empty()) refuse("task: is required");
    task_.alias = text("task_alias", task_.name);
    const std::string kind = text("output_type", "generate_until");
    const auto found = std::ranges::find(kKindNames, kind);
    if (found == std::end(kKindNames))
      refuse("output_type: ", kind, ", expected loglikelihood, multiple_choice, ",
             "loglikelihood_rolling or generate_until");
    task_.kind = static_cast<EvalKind>(found - std::begin(kKindNames));
    take_fields();
    take_few_shot();
    take_metrics();
    take_filters();
    take_generation();
    take_descriptive();
    for (const auto& [key, value] : *all_.pairs())
      if (std::ranges::find(taken_, python_text(key)) == taken_.end() && !value.is_none())
        refuse(python_text(key), ": is not supported");
    return std::move(task_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Exit::bad_config, path_, ": ", parts...);
  }

  const ChatValue* take(const ChatValue& from, std::string_view key) {
    if (&from == &all_) taken_.emplace_back(key);
    const ChatValue* const value = from.find(key);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  std::string text_in(const ChatValue& from, std::string_view key, std::string_view otherwise) {
    const ChatValue* const value = take(from, key);
    if (value == nullptr) return std::string(otherwise);
    if (!value->is_text()) refuse(key, ": expected a text");
    return *value->text();
  }
  std::string text(std::string_view key, std::string_view otherwise) {
    return text_in(all_, key, otherwise);
  }
  bool flag_in(const ChatValue& from, std::string_view key, bool otherwise) {
    const ChatValue* const value = take(from, key);
    if (value == nullptr) return otherwise;
    if (value->boolean() == nullptr) refuse(key, ": expected true or false");
    return *value->boolean();
  }
  std::int64_t integer_in(const ChatValue& from, std::string_view key, std::int64_t otherwise,
                          std::int64_t least) {
    const ChatValue* const value = take(from, key);
    if (value == nullptr) return otherwise;
    if (value->integer() == nullptr || *value->integer() < least)
      refuse(key, ": expected an integer of at least ", least);
    return *value->integer();
  }
  double number_in(const ChatValue& from, std::string_view key, double otherwise) {
    const ChatValue* const value = take(from, key);
    if (value == nullptr) return otherwise;
    const auto number = value->boolean() != nullptr ? std::nullopt : python_number(*value);
    if (!number || *number < 0) refuse(key, ": expected a number of at least 0");
    return *number;
  }
  std::vector<std::string> texts_in(const ChatValue& from, std::string_view key) {
    const ChatValue* const value = take(from, key);
    if (value == nullptr) return {};
    if (value->is_text()) return {*value->text()};
    std::vector<std::string> texts;
    if (!value->is_list()) refuse(key, ": expected a text or a list of them");
    for (const ChatValue& item : *value->items()) {
      if (!item.is_text()) refuse(key, ": expected a text or a list of them");
      texts.push_back(*item.text());
    }
    return texts;
  }
  // The entries of a list of mappings, whose keys must be among these.
  std::vector<ChatValue> mappings(std::string_view key) {
    const ChatValue* const value = take(all_, key);
    if (value == nullptr) return {};
    if (!value->is_list()) refuse(key, ": expected a list");
    for (const ChatValue& item : *value->items())
      if (!item.is_dict()) refuse(key, ": expected a list of keys and values");
    return *value->items();
  }
  void only(const ChatValue& mapping, std::string_view place,
            std::initializer_list<std::string_view> keys) const {
    for (const auto& [key, value] : *mapping.pairs())
      if (std::ranges::find(keys, python_text(key)) == keys.end() && !value.is_none())
        refuse(place, ": ", python_text(key), ": is not supported");
  }

  EvalField field(std::string_view key) {
    const ChatValue* const value = take(all_, key);
    return value == nullptr ? EvalField() : EvalField(*value, concat(path_, ": ", key));
  }

  void take_fields() {
    task_.text = field("doc_to_text");
    task_.target = field("doc_to_target");
    task_.choice = field("doc_to_choice");
    task_.description = field("description");
    task_.gen_prefix = field("gen_prefix");
    task_.counted = field("doc_to_count");
    task_.true_choices = field("true_choices");
    if (const ChatValue* const image = take(all_, "doc_to_image")) {
      if (task_.kind != generate) refuse("doc_to_image: is of generate_until");
      for (const ChatValue& one : image->is_list() ? *image->items() : std::vector{*image})
        task_.images.emplace_back(one, concat(path_, ": doc_to_image"));
    }
    if (!task_.target.is_given()) refuse("doc_to_target: is required");
    if (!task_.text.is_given() && task_.kind != rolling) refuse("doc_to_text: is required");
    if (!task_.choice.is_given() && task_.kind == multiple_choice)
      refuse("doc_to_choice: is required");
    if (const ChatValue* const added = take(all_, "process_docs")) {
      if (!added->is_dict()) refuse("process_docs: expected fields and their templates");
      for (const auto& [key, value] : *added->pairs())
        task_.process_docs.emplace_back(
            python_text(key),
            EvalField(value, concat(path_, ": process_docs: ", python_text(key))));
    }
    task_.target_delimiter = text("target_delimiter", " ");
    task_.fewshot_delimiter = text("fewshot_delimiter", "\n\n");
    task_.repeats = integer_in(all_, "repeats", 1, 1);
    if (task_.repeats > 1 && task_.kind != generate) refuse("repeats: is of generate_until");
  }

  void take_few_shot() {
    task_.num_fewshot = integer_in(all_, "num_fewshot", 0, 0);
    // The examples are drawn from the documents themselves where both are the same split; two that
    // are not named are.
    std::string split = text("fewshot_split", "");
    if (const ChatValue* const config = take(all_, "fewshot_config")) {
      if (!config->is_dict()) refuse("fewshot_config: expected keys and values");
      only(*config, "fewshot_config", {"sampler", "split", "samples"});
      split = text_in(*config, "split", split);
      const std::string sampler = text_in(*config, "sampler", "default");
      if (sampler != "default" && sampler != "first_n")
        refuse("fewshot_config: sampler: ", sampler, ", expected default or first_n");
      task_.first_n = sampler == "first_n";
      if (const ChatValue* const samples = take(*config, "samples")) {
        if (!samples->is_list()) refuse("fewshot_config: samples: expected a list");
        task_.examples = *samples->items();
      }
    }
    task_.draws_itself = split == text("test_split", "");
  }

  void add_metric(std::string_view name, const ChatValue& settings) {
    const auto known = std::ranges::find(kMetrics, name, &KnownMetric::name);
    if (known == kMetrics.end()) refuse("metric_list: the metric ", name, " is not supported");
    if (known->kinds[0] != task_.kind && known->kinds[1] != task_.kind)
      refuse("metric_list: the metric ", name, " is none of ",
             kKindNames[static_cast<int>(task_.kind)]);
    EvalMetric metric{.name = std::string(name), .aggregation = std::string(known->aggregation)};
    metric.higher_is_better = known->higher_is_better;
    if (settings.is_dict()) {
      const bool has_options = name == "exact_match" && task_.kind == generate;
      only(
          settings, "metric_list",
          has_options
              ? std::initializer_list<std::string_view>{"metric", "aggregation", "higher_is_better",
                                                        "ignore_case", "ignore_punctuation",
                                                        "ignore_numbers", "regexes_to_ignore"}
              : std::initializer_list<std::string_view>{"metric", "aggregation",
                                                        "higher_is_better"});
      if (text_in(settings, "aggregation", known->aggregation) != known->aggregation)
        refuse("metric_list: ", name, ": aggregation: expected ", known->aggregation);
      metric.higher_is_better = flag_in(settings, "higher_is_better", known->higher_is_better);
      metric.ignore_case = flag_in(settings, "ignore_case", false);
      metric.ignore_punctuation = flag_in(settings, "ignore_punctuation", false);
      metric.ignore_numbers = flag_in(settings, "ignore_numbers", false);
      for (const std::string& regex : texts_in(settings, "regexes_to_ignore"))
        metric.ignored.emplace_back(regex);
    }
    task_.metrics.push_back(std::move(metric));
  }

  void take_metrics() {
    for (const ChatValue& settings : mappings("metric_list"))
      add_metric(text_in(settings, "metric", ""), settings);
    if (!task_.metrics.empty()) return;
    // What lm-evaluation-harness measures where nothing is said.
    static const std::vector<std::string_view> kUsual[] = {
        {"perplexity", "acc"},
        {"acc", "acc_norm"},
        {"word_perplexity", "byte_perplexity", "bits_per_byte"},
        {"exact_match"}};
    for (const std::string_view name : kUsual[static_cast<int>(task_.kind)]) add_metric(name, {});
  }

  FilterStep step(const ChatValue& settings) {
    using Kind = FilterStep::Kind;
    struct Known {
      std::string_view name;
      Kind kind;
    };
    static constexpr Known kKnown[] = {{"regex", Kind::regex},
                                       {"regex_pos", Kind::regex_pos},
                                       {"take_first", Kind::take_first},
                                       {"take_first_k", Kind::take_first_k},
                                       {"majority_vote", Kind::majority_vote},
                                       {"remove_whitespace", Kind::remove_whitespace},
                                       {"lowercase", Kind::lowercase},
                                       {"uppercase", Kind::uppercase}};
    const std::string name = text_in(settings, "function", "");
    const auto known = std::ranges::find(kKnown, name, &Known::name);
    if (known == std::end(kKnown)) refuse("filter_list: the filter ", name, " is not supported");
    FilterStep made{.kind = known->kind};
    if (made.kind == Kind::regex) {
      only(settings, "filter_list", {"function", "regex_pattern", "group_select", "fallback"});
      made.regex.emplace_back(text_in(settings, "regex_pattern", R"(#### (\-?[0-9\.\,]+))"));
      made.select = integer_in(settings, "group_select", 0, -1'000'000);
      made.fallback = text_in(settings, "fallback", made.fallback);
    } else if (made.kind == Kind::regex_pos) {
      only(settings, "filter_list", {"function"});
      made.regex.emplace_back(R"(\('([^']*)', '([^']*)'\))");
      made.fallback = "invalid";
    } else if (made.kind == Kind::take_first_k) {
      only(settings, "filter_list", {"function", "k"});
      made.select = integer_in(settings, "k", 1, 1);
      if (made.select > task_.repeats) refuse("filter_list: take_first_k: more than repeats");
    } else {
      only(settings, "filter_list", {"function"});
    }
    return made;
  }

  void take_filters() {
    for (const ChatValue& settings : mappings("filter_list")) {
      only(settings, "filter_list", {"name", "filter"});
      EvalFilter filter{.name = text_in(settings, "name", "none"), .steps = {}};
      const ChatValue* const steps = settings.find("filter");
      if (steps == nullptr || !steps->is_list()) refuse("filter_list: filter: expected a list");
      for (const ChatValue& one : *steps->items()) {
        if (!one.is_dict()) refuse("filter_list: filter: expected a list of keys and values");
        filter.steps.push_back(step(one));
      }
      task_.filters.push_back(std::move(filter));
    }
    if (!task_.filters.empty() && task_.kind != generate)
      refuse("filter_list: is of generate_until");
    if (task_.filters.empty()) task_.filters.push_back({.name = "none", .steps = {FilterStep()}});
  }

  void take_generation() {
    const ChatValue* const settings = take(all_, "generation_kwargs");
    if (task_.kind != generate) {
      if (settings != nullptr) refuse("generation_kwargs: is of generate_until");
      return;
    }
    task_.generation.until = {task_.fewshot_delimiter};
    if (settings == nullptr) return;
    if (!settings->is_dict()) refuse("generation_kwargs: expected keys and values");
    only(*settings, "generation_kwargs",
         {"until", "max_gen_toks", "do_sample", "temperature", "top_p", "top_k"});
    EvalGeneration& g = task_.generation;
    if (settings->has("until")) g.until = texts_in(*settings, "until");
    std::erase(g.until, "");
    g.max_gen_toks = integer_in(*settings, "max_gen_toks", 256, 1);
    const double temperature = number_in(*settings, "temperature", 0);
    if (flag_in(*settings, "do_sample", temperature > 0))
      g.temperature = settings->has("temperature") ? temperature : 1;
    g.top_p = number_in(*settings, "top_p", 0);
    g.top_k = integer_in(*settings, "top_k", 0, 0);
    if (g.top_p > 1) refuse("generation_kwargs: top_p: expected at most 1");
  }

  void take_descriptive() {
    for (const std::string_view key : kDescriptive) take(all_, key);
    for (const std::string_view key : {"tag", "group"})
      for (std::string& tag : texts_in(all_, key)) task_.tags.push_back(std::move(tag));
    const ChatValue* const metadata = all_.find("metadata");
    const ChatValue* const version = metadata == nullptr ? nullptr : metadata->find("version");
    task_.version = version == nullptr ? "Yaml" : python_text(*version);
  }

  const std::string& path_;
  ChatValue all_;
  EvalTask task_;
  std::vector<std::string> taken_;
};

}  // namespace

EvalTask read_eval_task(std::string_view yaml, const std::string& path) {
  return TaskReader(yaml, path).read();
}

}  // namespace mt
