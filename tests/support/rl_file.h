/* rl_file.h - checkpoints of trainers compared and spoilt. */
#ifndef TESTS_SUPPORT_RL_FILE_H
#define TESTS_SUPPORT_RL_FILE_H

/* Fails unless both files hold the same bytes. */
void assert_same_file(const char *a, const char *b);
/* Rewrites the file with the first byte of a tensor set to `byte`; other content stays. */
void spoil_tensor(const char *path, const char *tensor, unsigned char byte);

#endif
