;;; emacs_driver.el --- Plays one scenario in a real Emacs and prints what is seen  -*- lexical-binding: t; -*-

;; emacs --batch -q -l emacs_driver.el SCENARIO FILE FASTCODER.EL TYPED [stay]
;; prints what was seen as its last line, in JSON; with "stay" it does not end by itself.
;; Keys are typed through the command loop, so that hooks and keymaps take part as they do for a user.

(require 'json)
(require 'eglot)
(setq eglot-sync-connect 120 eglot-connect-timeout 120 eglot-autoshutdown t create-lockfiles nil make-backup-files nil
      python-indent-guess-indent-offset nil inhibit-message t)

(defun driver-wait (holds what &optional seconds)
  "Let Emacs work until HOLDS; fail with WHAT after SECONDS."
  (let ((end (+ (float-time) (or seconds 60))))
    (while (not (funcall holds))
      (when (> (float-time) end) (error "Not in time: %s" what))
      (accept-process-output nil 0.02))))

(defun driver-type (text)
  "Type TEXT as keys."
  (dolist (letter (string-to-list text))
    (execute-kbd-macro (vector letter))))

(defun driver-ghost ()
  "The ghost text as it is drawn."
  (if fastcoder--overlay (substring-no-properties (overlay-get fastcoder--overlay 'after-string)) ""))

(defun driver-server-text ()
  "The server's own copy of the buffer."
  (eglot--signal-textDocument/didChange)
  (plist-get (jsonrpc-request (eglot--current-server-or-lose) :fastcoder/debug/text
                              (list :uri (plist-get (eglot--TextDocumentIdentifier) :uri)))
             :text))

(defun driver-open (file)
  "Open FILE, connect, and go below the docstring of an unfinished function."
  (find-file file)
  (switch-to-buffer (current-buffer))
  (call-interactively #'eglot)
  (goto-char (point-min))
  (search-forward "largest first.\"\"\"\n"))

(defun driver-ghost-text (file typed)
  "Type TYPED into FILE, type the first letters of what is suggested, accept a word, then the rest."
  (fastcoder-setup '(python-mode))
  (driver-open file)
  (driver-type typed)
  (driver-wait (lambda () fastcoder--overlay) "ghost text")
  (let* ((ghost (driver-ghost))
         (letters (substring ghost 0 2))
         (rest (progn (driver-type letters) (driver-ghost)))
         (start (- (point) (length typed) (length letters))))
    (execute-kbd-macro (kbd "M-f"))
    (let ((after-word (buffer-substring-no-properties start (point))))
      (driver-wait (lambda () fastcoder--overlay) "the rest")
      (execute-kbd-macro (kbd "TAB"))
      (list :ghost ghost :rest rest :word after-word :visible (and fastcoder--overlay t)
            :accepted (buffer-substring-no-properties start (point))
            :buffer (buffer-substring-no-properties (point-min) (point-max)) :server (driver-server-text)))))

(defun driver-popup (file typed)
  "Type TYPED into FILE and complete at point, with nothing of ours but the server."
  (add-to-list 'eglot-server-programs '(python-mode . ("fastcoder-lsp" "serve")))
  (driver-open file)
  (driver-type typed)
  (let ((start (- (point) (length typed))) (tick (buffer-chars-modified-tick)))
    (driver-wait (lambda () (completion-at-point) (/= tick (buffer-chars-modified-tick))) "a completion")
    (list :accepted (buffer-substring-no-properties start (point))
          :buffer (buffer-substring-no-properties (point-min) (point-max)) :server (driver-server-text))))

(defun driver-dismiss (file typed)
  "Type TYPED into FILE and take the ghost text away."
  (fastcoder-setup '(python-mode))
  (driver-open file)
  (driver-type typed)
  (driver-wait (lambda () fastcoder--overlay) "ghost text")
  (execute-kbd-macro (kbd "C-g"))
  (list :visible (and fastcoder--overlay t)))

(let* ((arguments command-line-args-left)
       (scenario (intern (concat "driver-" (nth 0 arguments)))))
  (setq command-line-args-left nil)
  (load (nth 2 arguments) nil t)
  (let ((seen (funcall scenario (nth 1 arguments) (nth 3 arguments))))
    (set-buffer-modified-p nil)
    (terpri)                            ; bells ring into stdout
    (princ (json-encode seen))
    (terpri)
    (when (equal (nth 4 arguments) "stay") (sleep-for 600))))
;;; emacs_driver.el ends here
