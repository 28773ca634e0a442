#pragma once

/* `vesta-agent record`: one profile of one process, command or the whole machine, into a file. */
int record_main(int argc, char **argv);
