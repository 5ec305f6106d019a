"""Makes tasks that wait for each other, then does them: dwork with nothing but pyzmq and protobuf."""

import sys
import time

import zmq
from TaskMsg_pb2 import Dep, QueryMsg, TaskMsg

DINNER = {"shop": [], "chop": ["shop"], "boil": ["shop"], "stir": ["chop", "boil"], "eat": ["stir"]}
ME = "kitchen"

context = zmq.Context()
socket = context.socket(zmq.REQ)
socket.setsockopt(zmq.RCVTIMEO, 10_000)  # ms
socket.setsockopt(zmq.LINGER, 0)
socket.connect(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:6125")


def ask(question: QueryMsg) -> QueryMsg:
    socket.send(question.SerializeToString())
    answer = QueryMsg.FromString(socket.recv())
    if answer.type == QueryMsg.Error:
        sys.exit(f"the hall says: {answer.name}")
    return answer


tasks = [TaskMsg(name=n, origin=ME, pred=[Dep(name=first) for first in p]) for n, p in DINNER.items()]
ask(QueryMsg(type=QueryMsg.Create, task=tasks))
print("created", *DINNER)

while (answer := ask(QueryMsg(type=QueryMsg.Steal, location=ME, n=2))).type != QueryMsg.Exit:
    if answer.type == QueryMsg.NotFound:  # somebody else has what the rest waits for
        time.sleep(0.1)
    for task in answer.task:
        print("doing", task.name)
        ask(QueryMsg(type=QueryMsg.Complete, task=[task], location=ME))
print("all is done")
context.destroy()
