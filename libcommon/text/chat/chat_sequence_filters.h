// The filters of chat templates that go through the items of a value.
#pragma once

#include "text/chat/chat_run.h"

namespace mt {

#define MT_CHAT_FILTER(name) \
  ChatValue filter_##name(ChatRun& run, const ChatValue& value, const ChatArguments& arguments)
MT_CHAT_FILTER(dictsort);
MT_CHAT_FILTER(first);
MT_CHAT_FILTER(items);
MT_CHAT_FILTER(join);
MT_CHAT_FILTER(last);
MT_CHAT_FILTER(length);
MT_CHAT_FILTER(list);
MT_CHAT_FILTER(map);
MT_CHAT_FILTER(max);
MT_CHAT_FILTER(min);
MT_CHAT_FILTER(reject);
MT_CHAT_FILTER(rejectattr);
MT_CHAT_FILTER(reverse);
MT_CHAT_FILTER(select);
MT_CHAT_FILTER(selectattr);
MT_CHAT_FILTER(sort);
MT_CHAT_FILTER(sum);
MT_CHAT_FILTER(unique);
#undef MT_CHAT_FILTER

}  // namespace mt
