"""Terms: phrases that are translated alike, their renderings, and the pairs that depart from the usual one."""
