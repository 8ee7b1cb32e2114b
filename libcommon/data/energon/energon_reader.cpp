#include "data/energon/energon_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace mt {
namespace {

// The ending of a part, by which Energon decodes it: "jpg" of "0.jpg".
std::string_view ending_of(std::string_view part) { return part.substr(part.rfind('.') + 1); }

bool is_one_of(std::string_view ending, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view one) {
    return std::ranges::equal(ending, one, {}, [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    });
  });
}

bool is_image(std::string_view part) {
  return is_one_of(ending_of(part), {"jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"});
}

// Those that the line names, in its order, where it names members alone; else all, as they lie.
std::vector<const TarMember*> images_in(const ChatValue& line,
                                        const std::vector<TarMember>& members) {
  std::vector<const TarMember*> named, all;
  for (const TarMember& member : members)
    if (is_image(energon_name(member.name)->part)) all.push_back(&member);
  const ChatValue* const list = line.find("images");
  if (list == nullptr || !list->is_list() || list->items()->empty()) return all;
  for (const ChatValue& name : *list->items()) {
    const auto member = std::ranges::find_if(all, [&](const TarMember* one) {
      return name.text() != nullptr && one->name == *name.text();
    });
    if (member == all.end()) return all;
    named.push_back(*member);
  }
  return named;
}

// What is in a value, by the names and numbers of a path; null: it is not there.
const ChatValue* at_path(const ChatValue* value, const std::vector<std::string>& path) {
  for (const std::string& step : path) {
    if (value->is_list()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
      if (error != std::errc() || end != step.data() + step.size() ||
          index >= value->items()->size())
        return nullptr;
      value = &(*value->items())[index];
    } else if ((value = value->find(step)) == nullptr) {
      return nullptr;
    }
  }
  return value;
}

}  // namespace

bool EnergonReader::next_member(TarMember& member) {
  while (open_->tar.next(member))
    if (member.is_regular && energon_name(member.name)) return true;
  return false;
}

bool EnergonReader::next(EnergonSample& sample) {
  for (;;) {
    if (!open_) {
      if (opened_ == shards_.size()) return false;
      open_ = std::make_unique<Open>(concat(folder_.path(), "/", shards_[opened_++].name));
    }
    sample = {.shard = open_->file.path(), .number = open_->samples + 1};
    std::vector<TarMember> members;
    if (open_->ahead) members.push_back(*std::exchange(open_->ahead, {}));
    try {
      for (TarMember member; next_member(member); members.push_back(std::move(member)))
        if (!members.empty() &&
            energon_name(member.name)->key != energon_name(members.front().name)->key) {
          open_->ahead = std::move(member);
          break;
        }
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      sample.wrong = std::string_view(error.what()).substr(sample.shard.size() + 2);
      sample.cut = true;
      open_.reset();
      return true;
    }
    end_ = open_->ahead ? open_->ahead->header : open_->tar.offset();
    if (members.empty()) {
      const std::int64_t samples = open_->samples, expected = shards_[opened_ - 1].samples;
      open_.reset();
      if (excluded_ == Excluded::read || samples == expected) continue;
      sample.wrong = concat("ends behind ", samples, " samples, and .info.json says ", expected);
      sample.cut = true;
      return true;
    }
    ++open_->samples;
    sample.key = energon_name(members.front().name)->key;
    sample.begin = members.front().header;
    if (excluded_ == Excluded::left_out && folder_.excludes(shards_[opened_ - 1].name, sample.key))
      continue;
    try {
      make_line(sample, members);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      sample.wrong = error.what();
    }
    return true;
  }
}

ChatValue EnergonReader::value_of(const TarMember& member) const {
  const std::string_view ending = ending_of(energon_name(member.name)->part);
  const std::string_view content = as_text(open_->file.bytes()).substr(member.data, member.size);
  if (is_one_of(ending, {"json", "jsn"})) return chat_value_of_json(content, member.name);
  if (is_one_of(ending, {"txt", "text", "transcript"})) return content;
  fail(Exit::bad_data, member.name, ": expected a .json or a .txt");
}

FilePart EnergonReader::image_of(const TarMember& member) const {
  return {.path = open_->file.path(),
          .offset = member.data,
          .size = member.size,
          .name = concat(open_->file.path(), ": ", member.name)};
}

// None where no place of a field has it.
ChatValue EnergonReader::field_of(const std::string& name,
                                  const std::vector<TarMember>& members) const {
  const auto field = folder_.fields().find(name);
  if (field == folder_.fields().end()) return {};
  for (const EnergonField::Place& place : field->second.places)
    for (const TarMember& member : members) {
      if (energon_name(member.name)->part != place.part) continue;
      const ChatValue value = value_of(member);
      if (const ChatValue* const found = at_path(&value, place.path)) return *found;
    }
  return {};
}

void EnergonReader::make_line(EnergonSample& sample, const std::vector<TarMember>& members) const {
  for (const TarMember& member : members)
    if (climbs_out(member.name))
      fail(Exit::bad_data, member.name, ": a name that leaves the folder");
  ChatValue line = ChatValue::dict({}), names = ChatValue::list({});
  const auto take_image = [&](const TarMember& member) {
    sample.images.push_back(image_of(member));
    names.push_back(member.name);
  };
  if (folder_.type() == EnergonType::crude) {
    const auto json = std::ranges::find_if(members, [](const TarMember& member) {
      return is_one_of(ending_of(energon_name(member.name)->part), {"json", "jsn"});
    });
    if (json == members.end()) fail(Exit::bad_data, sample.key, ": has no .json");
    const ChatValue value = value_of(*json);
    if (value.is_list())
      line.set("conversations", value);
    else if (value.is_dict())
      line = value;
    else
      fail(Exit::bad_data, json->name, ": expected an object, or a list of messages");
    for (const TarMember* const image : images_in(line, members)) take_image(*image);
  } else {
    for (const EnergonField::Place& place : folder_.fields().at("image").places) {
      const auto member = std::ranges::find_if(members, [&](const TarMember& one) {
        return energon_name(one.name)->part == place.part;
      });
      if (member == members.end()) continue;
      take_image(*member);
      break;
    }
    if (sample.images.empty()) fail(Exit::bad_data, sample.key, ": has no image");
    for (const auto& [name, field] : folder_.fields()) {
      if (name == "image") continue;
      ChatValue value = field_of(name, members);
      if (value.is_none() && name == "answer_weights") continue;
      if (value.is_none()) fail(Exit::bad_data, sample.key, ": has no ", name);
      line.set(name, std::move(value));
    }
  }
  line.erase("image");
  line.set("images", names);
  sample.line = chat_value_json(line);
}

}  // namespace mt
