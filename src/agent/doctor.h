#pragma once

/*
 * `vesta-agent doctor`: what works here, what is lost, how to mend it. Exits with 0 when everything
 * essential works, 1 when not, 2 when it was called wrongly.
 * `vesta-agent status`: what a running agent does and costs, as it tells at its `listen` address.
 * `argv` is behind the verb: --json, and the agent's own options.
 */
int doctor_main(int argc, char **argv);
int status_main(int argc, char **argv);
