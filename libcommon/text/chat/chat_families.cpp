// The chat templates of well-known families, written anew from what theirs render.  They know no
// tools, and have `generation` blocks that end with what ends a turn.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/chat/chat_sources.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

#define MT_CHATML_TURNS                                                               \
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"                      \
  "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}"      \
  "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}" \
  "{% endfor %}"
#define MT_CHATML_PROMPT "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

constexpr char kChatml[] = MT_CHATML_TURNS MT_CHATML_PROMPT;

constexpr char kQwen25[] =
    "{% if not messages or messages[0].role != 'system' %}"
    "{{ '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<|im_end|>\\n' }}{% endif %}" MT_CHATML_TURNS MT_CHATML_PROMPT;

// What was thought stays in the turns behind the user's last one.
constexpr char kQwen3[] = R"({% set ns = namespace(last=-1) %}
{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{% for m in messages %}
{{- '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' %}
{%- set text = m.content %}{% set thought = m.reasoning_content | default('') %}
{%- if not thought and '</think>' in text %}
{%- set thought = text.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{%- set text = text.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- generation %}
{%- if loop.index0 > ns.last and (loop.last or thought) %}
{{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + text.lstrip('\n') }}
{%- else %}{{ text }}{% endif %}
{{- '<|im_end|>' }}{% endgeneration %}{{ '\n' }}
{%- else %}{{ m.content + '<|im_end|>\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\n\n</think>\n\n' }}{% endif %}{% endif %})";

constexpr char kNemotron3[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ '<think></think>' + m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}";

// The system's text goes into a turn of the user: `where` is the number of that turn.
#define MT_SYSTEM_IN_USER(where)                                                        \
  "{% set ns = namespace(system='', users=0, user=0) %}"                                \
  "{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}"   \
  "{% elif m.role == 'user' %}{% set ns.users = ns.users + 1 %}{% endif %}{% endfor %}" \
  "{% macro asked(m, between) %}"                                                       \
  "{{ (ns.system + between if ns.system and ns.user == " where                          \
  " else '') + m.content }}"                                                            \
  "{% set ns.user = ns.user + 1 %}{% endmacro %}"

constexpr char kLlama2[] =
    "{% set ns = namespace(system='') %}{% for m in messages %}"
    "{% if m.role == 'system' %}"
    "{% set ns.system = '<<SYS>>\\n' + m.content + '\\n<</SYS>>\\n\\n' %}"
    "{% elif m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + (ns.system + m.content).strip() + ' [/INST]' }}"
    "{% set ns.system = '' %}"
    "{% else %}{% generation %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endgeneration %}"
    "{% endif %}{% endfor %}";

#define MT_LLAMA3_HEADER(role) "'<|start_header_id|>' + " role " + '<|end_header_id|>\\n\\n'"
#define MT_LLAMA3_TURNS(turns) \
  "{% for m in " turns " %}{{ " MT_LLAMA3_HEADER("m.role") " }}"                           \
  "{% if m.role == 'assistant' %}{% generation %}{{ m.content.strip() + '<|eot_id|>' }}"   \
  "{% endgeneration %}{% else %}{{ m.content.strip() + '<|eot_id|>' }}{% endif %}"         \
  "{% endfor %}{% if add_generation_prompt %}{{ " MT_LLAMA3_HEADER("'assistant'") " }}{% endif %}"
#define MT_LLAMA31(today) \
  "{% set date_string = date_string | default(" today ") %}"                               \
  "{% set has_system = messages and messages[0].role == 'system' %}"                       \
  "{{ bos_token + " MT_LLAMA3_HEADER("'system'")                                           \
  " + 'Cutting Knowledge Date: December 2023\\nToday Date: ' + date_string + '\\n\\n'"     \
  " + (messages[0].content.strip() if has_system else '') + '<|eot_id|>' }}"               \
  MT_LLAMA3_TURNS("(messages[1:] if has_system else messages)")

constexpr char kLlama3[] = "{{ bos_token }}" MT_LLAMA3_TURNS("messages");
constexpr char kLlama31[] = MT_LLAMA31("'26 Jul 2024'");
constexpr char kLlama32[] = MT_LLAMA31("strftime_now('%d %b %Y')");

#define MT_MISTRAL(where, before, behind, answer)                   \
  MT_SYSTEM_IN_USER(where)                                          \
  "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}" \
  "{{ '" before "' + asked(m, '\\n\\n') + '" behind                 \
  "' }}"                                                            \
  "{% elif m.role == 'assistant' %}{% generation %}{{ '" answer     \
  "' + m.content + eos_token }}"                                    \
  "{% endgeneration %}{% endif %}{% endfor %}"

constexpr char kMistral1[] = MT_MISTRAL("0", " [INST] ", " [/INST]", " ");
constexpr char kMistral3[] = MT_MISTRAL("ns.users - 1", "[INST] ", "[/INST]", " ");
constexpr char kMistralTekken[] = MT_MISTRAL("ns.users - 1", "[INST]", "[/INST]", "");
constexpr char kMistral7[] =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}"
    "{{ '[INST]' + m.content + '[/INST]' }}{% else %}"
    "{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% endif %}{% endfor %}";

#define MT_GEMMA_TURNS                                                                           \
  "{{ bos_token }}{% for m in messages if m.role != 'system' %}"                                 \
  "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                                        \
  "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}" \
  "{% endif %}{% if m.role == 'assistant' %}{{ '<start_of_turn>model\\n' }}"                     \
  "{% generation %}{{ m.content.strip() + '<end_of_turn>' }}{% endgeneration %}{% else %}"       \
  "{{ '<start_of_turn>' + m.role + '\\n' + asked(m, '\\n\\n').strip() + '<end_of_turn>' }}"      \
  "{% endif %}{{ '\\n' }}{% endfor %}"                                                           \
  "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"

constexpr char kGemma[] =
    "{% if messages and messages[0].role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" MT_SYSTEM_IN_USER("0")
        MT_GEMMA_TURNS;
constexpr char kGemma3[] = MT_SYSTEM_IN_USER("0") MT_GEMMA_TURNS;

constexpr char kPhi3[] =
    "{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}";

constexpr char kPhi4[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}";

#define MT_DEEPSEEK(answer, prompt)                                                  \
  "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}" \
  "{% elif m.role == 'user' %}{{ '<｜User｜>' + m.content }}{% else %}"            \
  "{{ '<｜Assistant｜>' }}{% generation %}"                                        \
  "{{ " answer                                                                       \
  " + '<｜end▁of▁sentence｜>' }}{% endgeneration %}{% endif %}{% endfor %}"    \
  "{% if add_generation_prompt %}{{ '<｜Assistant｜>" prompt "' }}{% endif %}"

constexpr char kDeepseekV3[] = MT_DEEPSEEK("m.content", "");
constexpr char kDeepseekR1[] = MT_DEEPSEEK("m.content.split('</think>')[-1]", "<think>\\n");

#define MT_COHERE_TURN(role) "<|START_OF_TURN_TOKEN|><|" role "_TOKEN|>"
constexpr char kCohere[] =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ '" MT_COHERE_TURN("SYSTEM") "' + m.content + '<|END_OF_TURN_TOKEN|>' }}"
    "{% elif m.role == 'user' %}"
    "{{ '" MT_COHERE_TURN("USER") "' + m.content.strip() + '<|END_OF_TURN_TOKEN|>' }}"
    "{% else %}{{ '" MT_COHERE_TURN("CHATBOT") "' }}{% generation %}"
    "{{ m.content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endgeneration %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" MT_COHERE_TURN("CHATBOT") "' }}{% endif %}";

// The next turn's role ends an answer, and is learnt with it.
constexpr char kGlm4[] =
    "{{ '[gMASK]<sop>' }}{% for m in messages %}"
    "{% if loop.first or loop.previtem.role != 'assistant' %}{{ '<|' + m.role + '|>' }}{% endif %}"
    "{% if m.role == 'assistant' %}{% generation %}"
    "{{ '\\n<think></think>\\n' + m.content.strip() }}"
    "{% if not loop.last %}{{ '<|' + loop.nextitem.role + '|>' }}{% endif %}"
    "{% endgeneration %}{% else %}{{ '\\n' + m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

constexpr char kExaone[] =
    "{% for m in messages %}{{ '[|' + m.role + '|]' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content + '[|endofturn|]' }}{% endgeneration %}{{ '\\n' }}"
    "{% else %}{{ m.content + ('[|endofturn|]' if m.role == 'system' else '') + '\\n' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}";

// Where a model is to learn, its answers end with the tokenizer's own token.
constexpr char kVicuna[] =
    "{% for m in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}"
    "{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}"
    "{{ 'USER: ' + m.content }}{% else %}{{ 'ASSISTANT: ' }}{% generation %}"
    "{{ m.content + ('' if add_generation_prompt else eos_token) }}{% endgeneration %}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}";

constexpr char kAlpaca[] =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}"
    "{% elif m.role == 'user' %}{{ '### Instruction:\\n' + m.content + '\\n\\n' }}{% else %}"
    "{{ '### Response:\\n' }}{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
    "{{ '\\n\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### Response:\\n' }}{% endif %}";

constexpr char kGptOss[] = R"({{- '<|start|>system<|message|>' }}
{{- model_identity | default('You are ChatGPT, a large language model trained by OpenAI.') }}
{{- '\nKnowledge cutoff: 2024-06\nCurrent date: ' }}
{{- date_string | default(strftime_now('%Y-%m-%d')) }}
{{- '\n\nReasoning: ' + reasoning_effort | default('medium') }}
{{- '\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.' }}
{{- '<|end|>' }}
{%- for m in messages %}
{%- if m.role == 'system' or m.role == 'developer' %}
{{- '<|start|>developer<|message|># Instructions\n\n' + m.content + '\n\n<|end|>' }}
{%- elif m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}
{%- else %}{{ '<|start|>assistant' }}
{%- generation %}
{%- if loop.last and not add_generation_prompt and m.thinking %}
{{- '<|channel|>analysis<|message|>' + m.thinking + '<|end|><|start|>assistant' }}{% endif %}
{{- '<|channel|>final<|message|>' + m.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- endgeneration %}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %})";

struct Family {
  std::string_view name, source;
  // Tokens that only its tokenizers have; empty: they do not tell.  Of two families the first is
  // it.
  std::string_view mark = {};
};

constexpr auto kFamilies = std::to_array<Family>({
    {"alpaca", kAlpaca},
    {"chatml", kChatml},
    {"cohere", kCohere, "<|CHATBOT_TOKEN|>"},
    {"deepseek-r1", kDeepseekR1},
    {"deepseek-v3", kDeepseekV3, "<｜Assistant｜>"},
    {"exaone", kExaone, "[|endofturn|]"},
    {"gemma", kGemma, "<start_of_turn>"},
    {"gemma2", kGemma},
    {"gemma3", kGemma3},
    {"glm4", kGlm4, "[gMASK]"},
    {"gpt-oss", kGptOss, "<|channel|>"},
    {"llama2", kLlama2},
    {"llama3", kLlama3, "<|start_header_id|>"},
    {"llama3.1", kLlama31},
    {"llama3.2", kLlama32},
    {"llama3.3", kLlama31},
    {"mistral-v1", kMistral1},
    {"mistral-v2", kMistral3},
    {"mistral-v3", kMistral3},
    {"mistral-v3-tekken", kMistralTekken},
    {"mistral-v7", kMistral7, "[SYSTEM_PROMPT]"},
    {"nemotron3", kNemotron3},
    {"phi3", kPhi3},
    {"phi3.5", kPhi3},
    {"phi4", kPhi4, "<|im_sep|>"},
    {"qwen2.5", kQwen25},
    {"qwen3", kQwen3},
    {"vicuna", kVicuna},
});

}  // namespace

std::vector<std::string_view> builtin_chat_names() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

std::optional<std::string> builtin_chat(std::string_view name) {
  const auto found = std::ranges::find(kFamilies, name, &Family::name);
  if (found == kFamilies.end()) return {};
  return concat("{% if tools %}{{ raise_exception('The template of the family ", name,
                " knows no tools; the model\\'s own may') }}{% endif %}{% for m in messages %}"
                "{% if m.role not in ['system', 'developer', 'user', 'assistant'] %}"
                "{{ raise_exception('The template of the family ",
                name, " knows no role ' ~ m.role) }}{% endif %}{% endfor %}", found->source);
}

std::optional<std::string_view> builtin_chat_of(const Tokenizer& tokenizer) {
  const auto has = [&](std::string_view token) {
    std::vector<std::int32_t> ids;
    try {
      tokenizer.encode(concat("a", token, "a"), ids);
    } catch (const Error&) {  // one that knows numbers alone
      return false;
    }
    return std::ranges::any_of(
        ids, [&](std::int32_t id) { return tokenizer.decode_text(std::span(&id, 1)) == token; });
  };
  for (const Family& family : kFamilies)
    if (!family.mark.empty() && has(family.mark)) return family.name;
  if (has("<|im_start|>") && has("<|im_end|>")) return "chatml";
  return {};
}

}  // namespace mt
