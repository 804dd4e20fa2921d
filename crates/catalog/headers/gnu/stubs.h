/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In the place of glibc's, which asks for a file of 32-bit systems where it does not know the
 * target, and BPF is none that it knows.
 */
