#include "serve/chat_reader.h"

#include <algorithm>

#include "serve/request_json.h"

namespace mt {

static constexpr std::string_view kWhite = " \t\r\n", kMessage = "<|message|>",
                                  kTo = "to=functions.";

static std::pair<std::string_view, std::string_view> marks_of(ThoughtForm form) {
  if (form == ThoughtForm::mistral) return {"[THINK]", "[/THINK]"};
  return {"<think>", "</think>"};
}

std::optional<ThoughtForm> thought_form_of(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != text.npos; };
  if (has("<|channel|>") && has("analysis")) return ThoughtForm::channels;
  if (has("[THINK]")) return ThoughtForm::mistral;
  if (has("</think>")) return ThoughtForm::think;
  return std::nullopt;
}

static bool ends_with_mark(std::string_view prompt, std::string_view mark) {
  const std::size_t last = prompt.find_last_not_of(kWhite);
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(mark);
}

ChatReader::ChatReader(const ChatForm& form, std::string_view prompt)
    : thoughts_(form.thoughts),
      channels_(form.thoughts == ThoughtForm::channels || form.calls == ToolForm::channels),
      place_(form.thoughts ? Place::before : Place::text) {
  if (channels_) return;
  if (form.calls) calls_.emplace(*form.calls, form.functions);
  if (form.thoughts && ends_with_mark(prompt, marks_of(*form.thoughts).first))
    place_ = Place::thinking;
}

ChatReader::Said ChatReader::take(std::string_view more, bool ended) {
  Said said;
  held_ += more;
  if (channels_) {
    take_channels(said, ended);
    return said;
  }
  take_thoughts(said, ended);
  if (!calls_) return said;
  ToolReader::Said read = calls_->take(said.text, ended);
  said.text = std::move(read.text);
  said.calls = std::move(read.calls);
  return said;
}

// Takes all of what is held that is certain.
void ChatReader::take_thoughts(Said& said, bool ended) {
  if (place_ == Place::before) {
    const auto [begin, unused] = marks_of(*thoughts_);
    const std::size_t first = std::min(held_.find_first_not_of(kWhite), held_.size());
    const std::string_view text = std::string_view(held_).substr(first);
    if (text.starts_with(begin)) {
      held_.erase(0, first + begin.size());
      place_ = Place::thinking;
    } else if (ended || !begin.starts_with(text)) {
      place_ = Place::text;
    } else {
      return;
    }
  }
  if (place_ == Place::thinking) {
    const std::string_view mark = marks_of(*thoughts_).second;
    const std::size_t end = held_.find(mark);
    const bool ends = end != held_.npos;
    const std::size_t certain = ends ? end : held_.size() - (ended ? 0 : begun_mark(held_, mark));
    said.thought = held_.substr(0, certain);
    held_.erase(0, ends ? end + mark.size() : certain);
    if (!ends) return;
    place_ = Place::behind;
  }
  if (place_ == Place::behind) {
    held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
    if (held_.empty()) return;
    place_ = Place::text;
  }
  said.text = std::exchange(held_, "");
}

// --- Channels -----------------------------------------------------------------------------------

// The function that a header names; nothing: it is no call.
static std::optional<std::string> function_of(std::string_view header) {
  const std::size_t at = header.find(kTo);
  if (at == header.npos) return std::nullopt;
  const std::string_view name = header.substr(at + kTo.size());
  return std::string(name.substr(0, name.find_first_of(" \n<")));
}

void ChatReader::end_message(Said& said) {
  if (const auto name = function_of(header_)) {
    simdjson::dom::parser parser;
    simdjson::dom::element object;
    if (!name->empty() && parse_request(parser, arguments_).get(object) == simdjson::SUCCESS &&
        object.is_object())
      said.calls.push_back({*name, simdjson::minify(object)});
    else
      said.text += arguments_;
  }
  arguments_.clear();
  header_.clear();
  in_header_ = true;
}

// Whether a text is a message's header that was cut: who speaks and to whom, in front of a channel.
static bool is_cut_header(std::string_view text) {
  static constexpr std::string_view kRole = "assistant";
  const auto skip_white = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(kWhite), text.size()));
  };
  skip_white();
  if (text.starts_with("<|start|>")) return true;
  if (text.starts_with(kRole)) text.remove_prefix(kRole.size());
  skip_white();
  if (text.starts_with("to=")) text.remove_prefix(std::min(text.find_first_of(" <"), text.size()));
  skip_white();
  return text.starts_with("<|channel|>");
}

void ChatReader::take_channels(Said& said, bool ended) {
  static constexpr std::string_view kEnds[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
  for (;;) {
    if (in_header_) {
      const std::size_t at = held_.find(kMessage);
      if (at == held_.npos) break;
      header_ = held_.substr(0, at);
      held_.erase(0, at + kMessage.size());
      in_header_ = false;
    }
    std::size_t end = held_.npos, size = 0, begun = 0;
    for (const std::string_view mark : kEnds) {
      if (const std::size_t at = held_.find(mark); at < end) {
        end = at;
        size = mark.size();
      }
      begun = std::max(begun, begun_mark(held_, mark));
    }
    const bool ends = end != held_.npos;
    const std::size_t certain = ends ? end : held_.size() - (ended ? 0 : begun);
    const std::string_view part = std::string_view(held_).substr(0, certain);
    const bool thinks = thoughts_ && header_.find("analysis") != header_.npos;
    (function_of(header_) ? arguments_ : thinks ? said.thought : said.text) += part;
    held_.erase(0, certain + size);
    if (!ends) break;
    end_message(said);
  }
  if (!ended) return;
  if (!in_header_) end_message(said);
  // Who speaks in no channel says his answer.
  if (!is_cut_header(held_)) said.text += held_;
  held_.clear();
}

}  // namespace mt
