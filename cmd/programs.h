// What libmt shows: the programs' main functions, a program each, of which cmd/main.cpp calls one.
#pragma once

#pragma GCC visibility push(default)
extern "C" {
int mt_convert(int argc, char** argv);
int mt_eval(int argc, char** argv);
int mt_finetune(int argc, char** argv);
int mt_generate(int argc, char** argv);
int mt_preprocess(int argc, char** argv);
int mt_pretrain(int argc, char** argv);
int mt_retro_index(int argc, char** argv);
}
#pragma GCC visibility pop
