# Gearman::Worker with a timeout: ADDRESS TIMEOUT. Its function "limited" says what it got, and waits for a line.
use strict;
use warnings;
use Gearman::Worker;

$| = 1;
my ($server, $timeout) = @ARGV;
my $worker = Gearman::Worker->new(job_servers => [$server]);

$worker->register_function(
    limited => $timeout => sub {
        print "> got " . $_[0]->arg . "\n";
        <STDIN>;
        return "done";
    }
);

$worker->work while 1;
