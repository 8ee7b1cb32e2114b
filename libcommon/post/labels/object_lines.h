// for_each_object: the JSON objects of files that have one a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json_object.h"

namespace mt {

// Calls body(object, line) for each line that is not blank, in order; an object's where() is
// "FILE:LINE".  Exit::bad_data names a line that is none.
void for_each_object(const std::vector<std::string>& files,
                     const std::function<void(const JsonObject&, std::int64_t)>& body);

}  // namespace mt
