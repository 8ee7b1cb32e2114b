// make_folder: the folder that outputs go to.
#pragma once

#include <string>

namespace mt {

// Makes it with those that it is in, unless it is there; whether it was made.  Exit::cannot_create
// where a file is in its place, and as the system says it otherwise.
bool make_folder(const std::string& path);

}  // namespace mt
