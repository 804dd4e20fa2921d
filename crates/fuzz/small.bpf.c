// SPDX-License-Identifier: GPL-2.0-or-later
/* A little of everything, without the kernel's types: clang-19 -target bpf -mcpu=v3 -O2 -g -c */
#define SEC(name) __attribute__((section(name), used))

typedef unsigned int u32;
typedef unsigned long long u64;

struct scx_entity {
	u64 slice;
	u64 dsq_vtime;
} __attribute__((preserve_access_index));

struct task_struct {
	struct scx_entity scx;
	int pid;
} __attribute__((preserve_access_index));

struct value {
	u64 count;
	struct value *next;
};

struct {
	int (*type)[1];
	int (*max_entries)[16];
	u32 *key;
	struct value *value;
} counts SEC(".maps");

static void *(*const lookup)(void *, const void *) = (void *)1;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
	__attribute__((section(".ksyms")));
extern void absent(void) __attribute__((section(".ksyms"), weak));

const volatile u64 slice = 5000000;
u64 total;
char _license[] SEC("license") = "GPL";

static __attribute__((noinline)) u64 more(u64 from, u32 key)
{
	struct value *found = lookup(&counts, &key);

	if (found)
		from += found->count++;
	for (u32 i = 0; i < key; i++)
		from ^= from << 3;
	return from;
}

SEC("struct_ops/enqueue")
int enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	total = more(total, p->pid);
	if (absent)
		absent();
	scx_bpf_dsq_insert(p, 0x8000000000000001ULL, slice, ctx[1]);
	return 0;
}

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 flags);
	u64 flags;
	char name[128];
};

SEC(".struct_ops.link")
struct sched_ext_ops small_ops = {
	.enqueue = (void *)enqueue,
	.flags = 1,
	.name = "small",
};
