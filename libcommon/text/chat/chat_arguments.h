// What filters and methods ask of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat/chat_run.h"

namespace mt {

// The integer of an argument; `otherwise` where none is given.
std::int64_t integer_of(const std::optional<ChatValue>& value, std::int64_t otherwise,
                        std::string_view what);
// The text of an argument that must be one.
const std::string& text_of(const ChatValue& value, std::string_view what);
// The attribute of an item that filters know by its name: "function.name", "0", or a number.
ChatValue attribute_of(ChatRun& run, ChatValue item, const ChatValue& name);

}  // namespace mt
