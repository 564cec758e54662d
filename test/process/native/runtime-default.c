// Runs a program under the system call filter that container runtimes call RuntimeDefault
// (containerd: contrib/seccomp/seccomp_default.go), for a container whose only capability is
// CAP_NET_ADMIN. What that profile leaves out is refused with EPERM; the rest is allowed. Here the
// other way round: the list has what is left out.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/** One system call: the instruction after is for it only. */
#define IF(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1)
#define REFUSED(name) IF(__NR_##name), REFUSE

static struct sock_filter filter[] = {
    LOAD(nr),
    REFUSED(acct),
    REFUSED(add_key),
    REFUSED(bpf),
    REFUSED(clock_adjtime),
    REFUSED(clock_settime),
    REFUSED(delete_module),
    REFUSED(fanotify_init),
    REFUSED(finit_module),
    REFUSED(fsconfig),
    REFUSED(fsmount),
    REFUSED(fsopen),
    REFUSED(fspick),
    REFUSED(get_mempolicy),
    REFUSED(init_module),
    REFUSED(io_uring_enter),
    REFUSED(io_uring_register),
    REFUSED(io_uring_setup),
    REFUSED(kcmp),
    REFUSED(kexec_file_load),
    REFUSED(kexec_load),
    REFUSED(keyctl),
    REFUSED(lookup_dcookie),
    REFUSED(mbind),
    REFUSED(mount),
    REFUSED(mount_setattr),
    REFUSED(move_mount),
    REFUSED(move_pages),
    REFUSED(nfsservctl),
    REFUSED(open_by_handle_at),
    REFUSED(open_tree),
    REFUSED(perf_event_open),
    REFUSED(pivot_root),
    REFUSED(process_madvise),
    REFUSED(quotactl),
    REFUSED(quotactl_fd),
    REFUSED(reboot),
    REFUSED(request_key),
    REFUSED(set_mempolicy),
    REFUSED(setdomainname),
    REFUSED(sethostname),
    REFUSED(setns),
    REFUSED(settimeofday),
    REFUSED(swapoff),
    REFUSED(swapon),
    REFUSED(syslog),
    REFUSED(umount2),
    REFUSED(unshare),
    REFUSED(userfaultfd),
    REFUSED(vhangup),
#ifdef __x86_64__
    REFUSED(create_module),
    REFUSED(get_kernel_syms),
    REFUSED(ioperm),
    REFUSED(iopl),
    REFUSED(query_module),
    REFUSED(_sysctl),
    REFUSED(sysfs),
    REFUSED(uselib),
    REFUSED(ustat),
#endif
    // Arguments are in registers: clone3 has them in memory, so that the profile says ENOSYS.
    IF(__NR_clone3),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    // New namespaces.
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 4),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K,
             CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                 CLONE_NEWNET | CLONE_NEWCGROUP,
             0, 1),
    REFUSE,
    ALLOW,
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 4),
    LOAD(args[0]),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_VSOCK, 0, 1),
    REFUSE,
    ALLOW,
    ALLOW,
};

int main(int count, char** words) {
  const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  if (count < 2) return 2;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("seccomp");
    return 1;
  }
  execvp(words[1], words + 1);
  perror(words[1]);
  return 127;
}
