/* One node's GPUs as a text file: "gpu0.temperature_c 41". See scenario.c. */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stddef.h>

enum { TEXT_BYTES = 256 };

/* Reads the file again if it was replaced. 0: there is a scenario; -1: this host has no GPUs. */
int scenario_refresh(void);

/* Copies the value of "key" to text. 0, or -1 if the key is absent or its value is "n/a". */
int scenario_text(const char *key, char text[TEXT_BYTES]);

#endif
