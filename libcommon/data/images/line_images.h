// The images that a line of JSON has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_value.h"

namespace mt {

// The files that its "images" or its "image" names, none where it has no such member.  Throws
// Exit::bad_data, beginning with `place`.
std::vector<std::string> images_of(const ChatValue& line, std::string_view place);

// Throws Exit::bad_data, beginning with `place`, where there is no such file.
void check_image_is_there(const std::string& path, std::string_view place);

}  // namespace mt
