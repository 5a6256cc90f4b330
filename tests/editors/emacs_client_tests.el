;;; emacs_client_tests.el --- What fastcoder-mode itself decides  -*- lexical-binding: t; -*-

;; emacs --batch -q -l fastcoder.el -l emacs_client_tests.el -f ert-run-tests-batch-and-exit
;; The server is scripted: what it was asked is in `script-asked', the latest question is answered by `script-answer'.

(require 'ert)

(defvar script-asked nil "The questions, latest first, as (METHOD PARAMS ANSWER-FUNCTION).")

(defmacro with-script (text &rest body)
  "Run BODY in a window on TEXT, point at its end or at the mark |, with `fastcoder-mode' on."
  (declare (indent 1))
  `(let ((script-asked nil) (fastcoder-delay 0) (buffer (generate-new-buffer "script")))
     (cl-letf (((symbol-function 'fastcoder--server) (lambda () 'server))
               ((symbol-function 'eglot--signal-textDocument/didChange) #'ignore)
               ((symbol-function 'eglot--TextDocumentPositionParams) (lambda () (list :position (point))))
               ((symbol-function 'eglot--lsp-position-to-point) #'identity)
               ((symbol-function 'jsonrpc-async-request)
                (lambda (_server method params &rest keys)
                  (push (list method params (plist-get keys :success-fn)) script-asked))))
       (unwind-protect
           (progn (switch-to-buffer buffer)
                  (insert ,text)
                  (when (search-backward "|" nil t) (delete-char 1))
                  (fastcoder-mode 1)
                  ,@body)
         (kill-buffer buffer)))))

(defun script-keys (keys)
  "Type KEYS, and let the timers run."
  (execute-kbd-macro (if (string-match-p "\\`\\(?:[CM]-.\\|TAB\\|DEL\\|RET\\)\\'" keys) (kbd keys) keys))
  (sleep-for 0.02))

(defun script-answer (&rest items)
  "Answer the latest question: ITEMS are texts, or whole items."
  (funcall (nth 2 (car script-asked))
           (list :items (vconcat (mapcar (lambda (item) (if (stringp item) (list :insertText item) item)) items)))))

(defun script-ghost ()
  "What is drawn."
  (if (fastcoder--shown)
      (substring-no-properties (overlay-get (fastcoder--shown-overlay (fastcoder--shown)) 'after-string))
    ""))

(defun script-kinds ()
  "How the server was asked, latest first."
  (mapcar (lambda (asked) (plist-get (plist-get (nth 1 asked) :context) :triggerKind))
          (cl-remove :workspace/executeCommand script-asked :key #'car)))

(ert-deftest what-is-copied-is-told-by-its-place ()
  (let ((status '(:state "ready" :context t)) told)
    (cl-letf (((symbol-function 'fastcoder--server-status) (lambda (_server) status))
              ((symbol-function 'eglot--VersionedTextDocumentIdentifier) (lambda () '(:uri "file:///a" :version 3)))
              ((symbol-function 'eglot--pos-to-lsp-position) #'identity)
              ((symbol-function 'jsonrpc-notify) (lambda (_server method params) (push (list method params) told))))
      (with-script "one\ntwo\nthree\n"
        (goto-char 5)
        (push-mark (point) t t)
        (goto-char 9)
        (script-keys "M-w")
        (should (equal told '((:fastcoder/yanked (:textDocument (:uri "file:///a" :version 3)
                                                  :range (:start 5 :end 9))))))
        (push-mark 4 t t)
        (script-keys "M-w")
        (should (= (length told) 2))
        (script-keys "C-k")
        (script-keys "C-y")
        (push-mark 1 t t)
        (script-keys "C-w")
        (should (= (length told) 2))
        (setq status '(:state "ready" :context :json-false))
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (= (length told) 2))
        (setq status '(:state "ready" :context t))
        (fastcoder-mode -1)
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (= (length told) 2))))))

(ert-deftest copying-beside-a-server-that-has-died-leaves-the-mode-on ()
  (let (debug-on-error)
    (cl-letf (((symbol-function 'fastcoder--server-status) (lambda (_server) '(:state "ready" :context t)))
              ((symbol-function 'eglot--VersionedTextDocumentIdentifier) #'ignore)
              ((symbol-function 'eglot--pos-to-lsp-position) #'identity)
              ((symbol-function 'jsonrpc-notify) (lambda (&rest _) (error "Process fastcoder not running"))))
      (with-script "one"
        (push-mark 1 t t)
        (script-keys "M-w")
        (should (memq #'fastcoder--after-command post-command-hook))))))

(ert-deftest alternatives-turn-and-the-chosen-one-is-accepted ()
  (with-script "x = "
    (script-keys "(")
    (script-answer "one")
    (should (equal (script-ghost) "one"))
    (script-keys "M-n")
    (should (equal (script-kinds) '(1 2)))
    (script-answer "one" "two" "three" "two")
    (should (equal (script-ghost) "two 2/3"))
    (script-keys "M-n")
    (should (equal (script-ghost) "three 3/3"))
    (script-keys "M-n")
    (should (equal (script-ghost) "one 1/3"))
    (script-keys "M-p")
    (should (equal (script-ghost) "three 3/3"))
    (should (equal (script-kinds) '(1 2)))
    (script-keys "TAB")
    (should (equal (buffer-string) "x = (three"))))

(ert-deftest typing-goes-on-with-the-alternative-that-fits ()
  (with-script ""
    (fastcoder--request 1)
    (script-answer "alpha" "beta" "bet2")
    (script-keys "be")
    (should (equal (script-ghost) "ta 1/2"))
    (should (equal (script-kinds) '(1)))
    (script-keys "x")
    (should (equal (script-ghost) ""))
    (should (equal (script-kinds) '(2 1)))))

(ert-deftest a-late-answer-is-dropped ()
  (with-script ""
    (script-keys "a")
    (let ((first (car script-asked)))
      (script-keys "b")
      (funcall (nth 2 first) '(:items [(:insertText "late")]))
      (should (equal (script-ghost) ""))
      (script-answer "now")
      (should (equal (script-ghost) "now")))))

(ert-deftest a-dismissed-suggestion-stays-away ()
  (with-script ""
    (script-keys "a")
    (script-answer "one")
    (script-keys "o")
    (should (equal (script-ghost) "ne"))
    (fastcoder-dismiss)
    (script-answer "ne")
    (should (equal (script-ghost) ""))))

(ert-deftest it-goes-when-point-leaves ()
  (with-script "ab"
    (script-keys "c")
    (script-answer "d")
    (script-keys "C-b")
    (should (equal (script-ghost) ""))))

(ert-deftest one-who-pauses-is-asked-for-again ()
  (let ((fastcoder--again '(0.01 0.02)))
    (with-script ""
      (script-keys "a")
      (dotimes (_ 4) (script-answer) (sleep-for 0.05))
      (should (equal (script-kinds) '(2 2 2))))))

(ert-deftest what-was-late-is-asked-for-when-it-is-made ()
  (let ((fastcoder--again nil))
    (with-script "x"
      (script-keys "a")
      (fastcoder--take-late (point))    ; an answer is on its way
      (script-answer)
      (should (equal (script-kinds) '(2)))
      (fastcoder--take-late (1- (point)))
      (should (equal (script-kinds) '(2)))
      (fastcoder--take-late (point))
      (script-answer "late")
      (should (equal (script-ghost) "late"))
      (fastcoder--take-late (point))
      (script-answer "late and longer")
      (should (equal (script-ghost) "late and longer"))
      (should (equal (script-kinds) '(2 2 2)))
      (fastcoder--request 1)
      (script-answer "one" "two")
      (fastcoder--take-late (point))    ; one chooses
      (fastcoder-dismiss)
      (fastcoder--take-late (point))    ; one has said no
      (should (equal (script-kinds) '(1 2 2 2))))))

(ert-deftest nothing-stays-on-the-screen-in-another-major-mode ()
  (with-script "x"
    (script-keys "a")
    (script-answer "late")
    (should (overlays-in (point-min) (point-max)))
    (text-mode)
    (should-not (overlays-in (point-min) (point-max)))))

(ert-deftest the-server-tells-of-one-text ()
  (let* ((pipe (make-pipe-process :name "script" :noquery t))
         (server (make-instance 'fastcoder-server :process pipe)))
    (unwind-protect
        (with-script "x"
          (cl-letf (((symbol-function 'eglot--TextDocumentIdentifier) (lambda () '(:uri "file:///a"))))
            (let* ((version (plist-get (eglot--VersionedTextDocumentIdentifier) :version))
                   (tell (lambda (uri version)
                           (eglot-handle-notification server 'fastcoder/late :position (point)
                                                      :textDocument (list :uri uri :version version)))))
              (funcall tell "file:///b" version)
              (funcall tell "file:///a" (1- version))
              (should-not script-asked)
              (funcall tell "file:///a" version)
              (should (equal (script-kinds) '(2))))))
      (delete-process pipe))))

(ert-deftest the-mode-line-says-what-is-made-and-how-far-it-is ()
  (cl-letf* ((status nil)
             ((symbol-function 'fastcoder--server) (lambda () 'server))
             ((symbol-function 'fastcoder--server-status) (lambda (_) status)))
    (setq status '(:state "loading" :percent 40 :message "weights 3%" :hint ""))
    (should (equal (substring-no-properties (fastcoder--lighter)) " fast:40%% weights 3%%"))
    (should (equal (fastcoder--described status) "loading 40%: weights 3%"))
    (setq status '(:state "loading" :percent 40 :message "" :hint ""))
    (should (equal (substring-no-properties (fastcoder--lighter)) " fast:40%%"))))

(ert-deftest the-status-says-who-is-asked-in-the-models-place ()
  (cl-flet ((said (state asks)
              (fastcoder--described (list :state state :percent nil :message "" :hint "" :host nil :asks asks))))
    (should (equal (said "ready" "models.example") "ready: code around the cursor is sent to models.example"))
    (should (equal (said "error" "models.example") "error"))
    (should (equal (said "ready" nil) "ready"))))

(ert-deftest why-is-told-in-a-window ()
  (with-script ""
    (cl-letf (((symbol-function 'eglot--TextDocumentIdentifier) (lambda () '(:uri "file:///a")))
              ((symbol-function 'fastcoder--server-or-lose) (lambda () 'server)))
      (fastcoder-why)
      (should (equal (seq-take (car script-asked) 2) '(:fastcoder/why (:textDocument (:uri "file:///a")))))
      (let ((fastcoder-auto nil))
        (funcall (nth 2 (car script-asked)) '(:text "Too slow.\nWait.")))
      (with-current-buffer "*fastcoder why*"
        (should (string-match-p "fastcoder-ask" (buffer-string)))
        (should (string-match-p "Too slow\\.\nWait\\." (buffer-string)))))))

(ert-deftest what-it-replaces-is-not-drawn-twice ()
  (with-script "f(|)"
    (script-keys "o")
    (script-answer (list :insertText "one(1))" :range (list :start 3 :end 5)))
    (should (equal (script-ghost) "ne(1)"))
    (should-not (fastcoder--shown-strike (fastcoder--shown)))
    (script-keys "TAB")
    (should (equal (buffer-string) "f(one(1))"))))

(ert-deftest what-it-replaces-otherwise-is-struck-out ()
  (with-script "f(|)"
    (script-keys "o")
    (script-answer (list :insertText "ne,\n  two)" :range (list :start 4 :end 5)))
    (should (equal (script-ghost) "ne,\n  two)"))
    (let ((strike (fastcoder--shown-strike (fastcoder--shown))))
      (should (equal (list (overlay-start strike) (overlay-end strike)) '(4 5))))
    (script-keys "TAB")
    (should (equal (buffer-string) "f(one,\n  two)"))
    (should-not (overlays-in (point-min) (point-max)))))

(ert-deftest lines-and-words ()
  (with-script ""
    (script-keys "x")
    (script-answer "größe = naïve(1)\n    zwei drei")
    (script-keys "M-f")
    (should (equal (script-ghost) " = naïve(1)\n    zwei drei"))
    (script-keys "M-f")
    (should (equal (script-ghost) " naïve(1)\n    zwei drei"))
    (script-keys "M-e")
    (should (equal (script-ghost) "\n    zwei drei"))
    (script-keys "M-f")
    (should (equal (script-ghost) " drei"))
    (script-keys "M-e")
    (should (equal (buffer-string) "xgröße = naïve(1)\n    zwei drei"))
    (should-not (fastcoder--shown))))

(ert-deftest the-command-runs-after-the-whole ()
  (with-script ""
    (script-keys "x")
    (script-answer '(:insertText "one two" :command (:command "fastcoder.accepted" :arguments [7])))
    (script-keys "M-f")
    (should-not (assq :workspace/executeCommand script-asked))
    (script-keys "TAB")
    (should (equal (cadr (assq :workspace/executeCommand script-asked))
                   '(:command "fastcoder.accepted" :arguments [7])))))

(ert-deftest only-when-asked ()
  (let ((fastcoder-auto nil))
    (with-script ""
      (script-keys "a")
      (should-not script-asked)
      (call-interactively #'fastcoder-ask)
      (script-answer "b")
      (should (equal (script-ghost) "b")))))

(ert-deftest nothing-where-nobody-types ()
  (with-script ""
    (let ((fastcoder-inhibit-functions (list (lambda () t))))
      (script-keys "a")
      (should-not script-asked))))

(ert-deftest keys-are-what-they-were-without-ghost-text ()
  (with-script "word word"
    (goto-char (point-min))
    (script-keys "M-f")
    (should (= (point) 5))
    (should (eq (key-binding (kbd "TAB")) 'indent-for-tab-command))))
;;; emacs_client_tests.el ends here
