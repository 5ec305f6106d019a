# Gearman::Worker with the functions of tests/system/foreign.py. It is not told the unique of a job.
use strict;
use warnings;
use Gearman::Worker;

$| = 1;
my ($server) = @ARGV;
my $worker = Gearman::Worker->new(job_servers => [$server], client_id => "perl");

$worker->register_function(reverse => sub { scalar reverse $_[0]->arg });
$worker->register_function(
    count => sub {
        my ($job) = @_;
        $job->set_status($_, 3) for 1 .. 3;
        return "counted";
    }
);
$worker->register_function(
    chunks => sub {
        my ($job) = @_;
        $worker->send_work_data($job, $_) for qw(one two);
        return "three";
    }
);
$worker->register_function(
    warn => sub {
        my ($job) = @_;
        $worker->send_work_warning($job, "careful");
        return "warned";
    }
);
$worker->register_function(fail  => sub { return undef });
$worker->register_function(raise => sub { $worker->send_work_exception($_[0], "boom"); return undef });
$worker->register_function(
    gate => sub {
        my ($job) = @_;
        $job->set_status(3, 7);
        print "> gate\n";
        <STDIN>;
        return "opened";
    }
);
# The module reports a handler that dies in two packets: an exception (frozen by Storable), then a failure.
$worker->register_function(die => sub { die "boom" });

print "> ready\n";
$worker->work while 1;
