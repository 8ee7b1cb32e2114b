// ApiError: what a request gets instead of an answer, in the form of OpenAI's API:
//   {"error":{"message":"...","type":"invalid_request_error","param":"top_p","code":null}}
#pragma once

#include <string>
#include <string_view>

namespace mt {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field that is wrong; empty: none
  std::string code = {};   // a name for programs; empty: none
};

// "invalid_request_error", "authentication_error", ... of an HTTP status.
std::string_view error_type(int status);
std::string error_json(const ApiError& error);

}  // namespace mt
