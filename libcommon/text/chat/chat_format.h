// str.format() of Python for chat templates.
#pragma once

#include <string>
#include <string_view>

#include "text/chat/chat_run.h"

namespace mt {

// Fields are {}, {0} or {name}, with attributes, items, a conversion and, for what Python's format
// mini-language says of strings, integers and floats, a width, a precision and the like.
std::string python_format(ChatRun& run, std::string_view format, const ChatArguments& arguments);

}  // namespace mt
