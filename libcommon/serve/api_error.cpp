#include "serve/api_error.h"

#include "base/json.h"

namespace mt {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string error_json(const ApiError& error) {
  const auto text_or_null = [](JsonWriter& json, std::string_view key, const std::string& text) {
    json.key(key);
    if (text.empty())
      json.null();
    else
      json.value(text);
  };
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.member("message", error.message).member("type", error_type(error.status));
  text_or_null(json, "param", error.param);
  text_or_null(json, "code", error.code);
  json.end_object().end_object();
  return json.text();
}

}  // namespace mt
